from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from loadtest.model import Interval, LaneTimes
from loadtest.report.life import in_use, stages
from tests.unit.report.results import new_pods, old_pods, pod
from tests.unit.report.runs import failures, passed_run


def test_an_old_pod_answers_stops_and_is_still_sent_to() -> None:
    life = stages(old_pods()[0], ((0.153, 5.576),), failures(), 31.2, named=True)
    assert [stage.kind for stage in life] == ["unused", "answers", "stopping", "gap"]
    assert (life[1].end, life[2].end) == (5.576224, 5.599214)


def test_a_new_pod_waits_for_traffic() -> None:
    life = stages(new_pods()[0], ((6.615, 30.1),), (), 31.2, named=True)
    assert [stage.kind for stage in life] == ["created", "starting", "unused", "answers"]
    assert life[-1].end == 31.2


def test_the_parts_of_a_life_never_overlap() -> None:
    for one in (*passed_run().pods, *old_pods(), *new_pods()):
        life = stages(one, passed_run().drawing.answering.get(one.name, ()), failures(), 31.2, named=True)
        for before, after in pairwise(life):
            assert before.end <= after.start + 1e-9
        assert all(stage.start < stage.end for stage in life)


def test_without_names_in_answers_a_ready_pod_is_only_alive() -> None:
    one = pod("web-a", "old", deletion=5.0, ended=6.0, gone=6.5, stopped_listening=Interval(earliest=5.1, latest=5.3))
    assert [stage.kind for stage in stages(one, (), (), 10.0, named=False)] == ["alive", "stopping", "ending"]


def test_a_pod_that_never_got_ready_never_answers() -> None:
    one = pod("web-b", "new", created=3.0, started=4.0, ready=None)
    assert [stage.kind for stage in stages(one, (), (), 10.0, named=True)] == ["created", "starting"]


def test_a_pod_with_nothing_known_of_its_stop_ends_with_its_last_answer() -> None:
    one = pod("web-c", "old", deletion=5.0, ended=8.0, served=9, first_request=0.1, last_request=LaneTimes(new=0.5, reused=None))
    life = stages(one, (), (), 10.0, named=True)
    assert [(stage.kind, stage.end) for stage in life] == [("unused", 0.1), ("answers", 5.5), ("ending", 8.0)]


def test_use_ends_with_the_last_answer_when_the_stop_came_long_after() -> None:
    one = old_pods()[0]
    assert in_use([one], {}, 31.2) == [(0.153134, 5.576224, 5.599214)]
    late = replace(one, stopped_listening=Interval(earliest=5.576224, latest=10.6))
    assert in_use([late], {}, 31.2)[0][2] == pytest.approx(6.076224)
