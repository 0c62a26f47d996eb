"""What must hold of every run, tried on runs that no cluster would make."""

from __future__ import annotations

import random

import pytest

from loadtest.analyze.conclude import conclude
from loadtest.model import FailureKind, Gap, Lane, Mark, Outcome, StoredRun
from loadtest.report.result_json import render
from tests.laws import assert_laws
from tests.unit.analyze.builders import Pod, Traffic, cluster, marks, ns, run


def any_run(chance: random.Random) -> StoredRun:
    names = "abcdef"
    pods = []
    for name in names[: chance.randint(1, 6)]:
        deleted = chance.choice([None, chance.uniform(1, 16)])
        ended = chance.choice([None, (deleted or chance.uniform(1, 10)) + chance.uniform(-1, 6)])
        gone = None if deleted is None else chance.choice([None, max(deleted, ended or 0) + chance.uniform(0, 1)])
        born = chance.choice([0.0, chance.uniform(0, 9)])
        pods.append(
            Pod(
                name=name,
                hash=chance.choice(["old", "new"]),
                born=born,
                ready_from=chance.choice([None, born + 1]) if born else None,
                deleted=deleted,
                ended=ended,
                gone=gone,
                exit_code=chance.choice([0, 1, 2, 137, 143]),
                prestop=chance.choice([None, {"sleep": {"seconds": 5}}, {"exec": {"command": ["x"]}}]),
                probe=chance.random() < 0.5,
            )
        )
    traffic = Traffic().steady(lambda _: names[: chance.randint(0, 6)], 0, chance.uniform(0, 17))
    for _ in range(chance.randint(0, 60)):
        traffic.add(
            chance.uniform(0, 17),
            kind=chance.choice(list(FailureKind)),
            lane=chance.choice(list(Lane)),
            took=chance.choice([0.0, 0.001, 0.3, 5.0]),
            pod=chance.choice(["", "", "a", "stranger"]),
            on=chance.choice(["", "b", "stranger"]),
            port=chance.randint(0, 3),
            status=chance.choice([200, 404, 502]),
            late=chance.choice([0.0, 0.0, 0.7]),
        )
    traffic.kept = [(chance.choice(names), chance.uniform(0, 5), chance.choice([None, 11.0])) for _ in range(3)]
    gaps = (Gap(start=ns(chance.uniform(0, 9)), end=ns(chance.uniform(9, 17)), resource="pods"),) if chance.random() < 0.3 else ()
    stuck = (Mark(name="stuck", at=ns(16), detail="deadline"),) if chance.random() < 0.1 else ()
    without = chance.sample(["completed", "old-pods-gone", "settle", "stop", "end", "rollout"], chance.choice([0, 0, 1, 2]))
    sightings = cluster(pods, rolled=chance.random() < 0.8)
    return run(traffic, sightings, gaps=gaps, marks=(*marks(*without), *stuck), closed=chance.random() < 0.9)


@pytest.mark.parametrize("seed", range(150))
def test_laws_and_outcome_of_any_run(seed: int) -> None:
    made = any_run(random.Random(seed))
    result = conclude(made)
    assert render(result) == render(conclude(made))
    assert_laws(made, result)
    if result.outcome is Outcome.PASS:
        assert all(check.passed for check in result.checks)
        assert result.complete
        assert not [one for one in result.failed_requests if one.phase in {"rollout", "settle"} and one.cause not in QUIET]
    if any(not check.passed for check in result.checks):
        assert result.outcome is Outcome.FAIL
    for pod in result.pods:
        assert pod.exposure.new >= 0
        assert pod.failed.sure <= pod.failed.at_most


QUIET = {"not-the-rollout", "stale-conntrack"}
