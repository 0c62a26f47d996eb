from __future__ import annotations

from dataclasses import replace

import pytest

from loadtest.model import Attribution, FailureKind, HowKnown, Interval
from loadtest.report import answers, facts, headline
from loadtest.report.thin import thin
from tests.unit.report.hard_runs import large_run
from tests.unit.report.results import NEW_A, OLD_A, OLD_B, failure, old_pods
from tests.unit.report.runs import doubtful_run, failed_run, failures, interrupted_run, passed_run, stuck_run


def test_a_gap_lasts_from_the_stop_to_the_last_request_sent_there() -> None:
    gap = facts.still_sent(old_pods()[0], failures())
    assert gap is not None
    assert gap.until == pytest.approx(6.596)
    assert gap.low == pytest.approx(6.596 - 5.599214)
    assert gap.high == pytest.approx(6.596 - 5.576224)


def test_an_echo_does_not_make_a_gap_longer() -> None:
    assert facts.still_sent(old_pods()[0], [one for one in failures() if one.echo]) is None


def test_a_request_that_was_cut_is_no_sign_of_traffic_to_a_dead_pod() -> None:
    cut = failure(700, FailureKind.RESET_MID_RESPONSE, [OLD_A], no_listener=False)
    assert facts.still_sent(old_pods()[0], [cut]) is None


def test_a_pod_of_which_no_stop_is_known_has_no_gap() -> None:
    pod = replace(old_pods()[0], stopped_listening=Interval(earliest=5.5, latest=None))
    assert facts.still_sent(pod, failures()) is None


def test_names_are_as_short_as_they_can_be_told_apart() -> None:
    assert facts.short_names([OLD_A, OLD_B, NEW_A])[OLD_A] == "wj7pv"
    twins = facts.short_names(["web-7d9c5b8f6d-00001", "web-65794778f7-00001"])
    assert sorted(twins.values()) == ["78f7-00001", "8f6d-00001"]
    assert facts.short_names(["db-0", "db-1"]) == {"db-0": "db-0", "db-1": "db-1"}
    assert facts.short_names(["web"]) == {"web": "web"}


@pytest.mark.parametrize(
    ("how", "pods", "words"),
    [
        (HowKnown.HEADER, ("a",), "proven"),
        (HowKnown.CONNECTION, ("a",), "proven"),
        (HowKnown.ONLY_CANDIDATE, ("a",), "by elimination"),
        (HowKnown.CANDIDATES, ("a", "b"), "one of two"),
        (HowKnown.CANDIDATES, ("a", "b", "c", "d"), "one of 4"),
        (HowKnown.UNKNOWN, (), "unknown"),
    ],
)
def test_how_sure_a_pod_is_has_four_words(how: HowKnown, pods: tuple[str, ...], words: str) -> None:
    assert facts.certainty(Attribution(how=how, pods=pods)) == words


def test_the_detail_shows_the_dearest_cause_without_its_echoes() -> None:
    assert facts.detail_of(failed_run()).start == pytest.approx(4.916)
    assert facts.detail_of(failed_run()).end == pytest.approx(7.096)


def test_without_failures_the_detail_shows_the_terminations() -> None:
    detail = facts.detail_of(passed_run())
    assert detail.start == pytest.approx(5.572 - 0.7)
    assert detail.end == pytest.approx(6.177 + 5.6 + 0.5)


def test_without_a_rollout_the_detail_is_the_whole_run() -> None:
    assert facts.detail_of(interrupted_run()) == facts.axis_of(interrupted_run())


def test_what_a_lost_answer_says_is_never_more_than_the_result() -> None:
    run = failed_run()
    text = {answer.term: ["".join(part.words for part in line) for line in answer.lines] for answer in answers.answers(run)}
    assert text["Which died"][:2] == ["43 of 1,500 fresh connections", "12 of 1,500 kept connections"]
    assert text["On which pod"] == ["26 on wj7pv", "1 on lns5h", "28 on one of two", "0 on a new pod"]
    assert text["How sure"][0] == "It fails: 0 of 486 before the rollout"
    assert text["How sure"][2] == "Pod: by elimination for 27, one of two for 28"


def test_a_run_without_losses_answers_what_was_tested_instead() -> None:
    terms = [answer.term for answer in answers.answers(passed_run())]
    assert terms == ["Which died", "Which pods ended", "Under which load", "How sure", "What to change"]


def test_verdicts_of_every_outcome() -> None:
    assert headline.verdict(failed_run()) == "55 of 3,000 requests were lost in this rollout"
    assert headline.verdict(passed_run()).startswith("No request of 2,514 was lost while 2 pods were replaced")
    assert headline.verdict(doubtful_run()).startswith("Cannot tell: no kept connection")
    assert headline.verdict(stuck_run()) == "The rollout got stuck: 1 of 2 updated after 90 s"


def test_failures_of_a_run_that_breaks_another_rule_do_not_take_the_headline() -> None:
    run = failed_run()
    check = replace(run.checks[0], name="p99 <= 200 ms", expected="200 ms", actual="812 ms")
    assert headline.verdict(replace(run, checks=(check,))) == "Rule p99 <= 200 ms is broken: 812 ms"


def test_failures_from_before_are_not_counted_as_lost() -> None:
    run = failed_run()
    finding = replace(run.findings[0], code=facts.UNRELATED, requests=55)
    assert facts.lost(replace(run, findings=(finding,))) == 0


def test_thinning_keeps_what_is_rare_and_both_ends() -> None:
    failed = large_run(5_000).failed_requests
    rare = failure(99_999, FailureKind.DNS, ())
    kept = thin((*failed[:2500], rare, *failed[2500:]))
    assert len(kept) == 2_000
    assert rare in kept
    assert kept[0] == failed[0]
    assert kept[-1] == failed[-1]
    assert [one.started for one in kept if one is not rare] == sorted(one.started for one in kept if one is not rare)


def test_few_failures_are_not_thinned() -> None:
    assert thin(failures()) == failures()


def test_thinning_holds_its_limit_when_everything_is_rare() -> None:
    failed = [failure(seq, FailureKind.DNS, [f"pod-{seq}"]) for seq in range(500)]
    assert len(thin(failed, 100)) == 100
