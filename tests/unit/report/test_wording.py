from __future__ import annotations

from loadtest.model import FailureKind
from loadtest.report import wording


def test_the_number_comes_first_in_a_failed_run() -> None:
    assert wording.verdict_of_failures(55, 3000, rollout=True) == "55 of 3,000 requests were lost in this rollout"
    assert wording.verdict_of_failures(1, 3000, rollout=False) == "1 of 3,000 requests was lost"


def test_a_pass_says_under_which_load_and_how_sure() -> None:
    words = wording.verdict_of_pass(sent=3000, lost=0, unrelated=0, replaced=2, bound=0.001, rollout=True)
    assert words == "No request of 3,000 was lost while 2 pods were replaced under load (95 %: fewer than 0.10 %)"
    one = wording.verdict_of_pass(sent=3000, lost=0, unrelated=0, replaced=1, bound=0.001, rollout=True)
    assert "1 pod was replaced" in one


def test_a_pass_of_a_lenient_rule_still_names_its_losses() -> None:
    words = wording.verdict_of_pass(sent=3000, lost=3, unrelated=0, replaced=2, bound=0.001, rollout=True)
    assert words == "3 of 3,000 requests were lost, and every rule holds"


def test_failures_that_were_there_before_are_not_the_rollouts() -> None:
    words = wording.verdict_of_pass(sent=3000, lost=0, unrelated=4, replaced=2, bound=0.001, rollout=True)
    assert words == "No request of 3,000 was lost to this rollout; 4 failed as others did before it"


def test_doubt_gives_its_reason() -> None:
    assert wording.verdict_of_doubt("The watch was blind.") == "Cannot tell: the watch was blind"
    assert wording.verdict_of_doubt("") == "Cannot tell: no reason was given"


def test_a_cause_says_what_it_cost() -> None:
    assert wording.cause_heading(48, "the pod stops") == ("48 lost.", "The pod stops")
    assert wording.cause_heading(0, "The pod stops.") == ("Cost nothing.", "The pod stops")


def test_a_gap_between_two_windows_is_a_range() -> None:
    assert wording.gap(1.0, 1.02) == "not listening, still sent to for 1.00–1.02 s"
    assert wording.gap(1.0, None) == "not listening, still sent to for at least 1.00 s"
    assert wording.gap(1.0, 1.02, brief=True) == "still sent to: 1.00–1.02 s"


def test_a_status_is_shown_where_the_answer_was_whole() -> None:
    assert wording.kind("http-5xx", 503) == "HTTP 503"
    assert wording.kind("http-5xx") == "HTTP 5xx"
    assert wording.kind("connect-refused") == "refused"
    assert wording.kind("something-new") == "something-new"


def test_every_kind_has_words() -> None:
    assert set(wording.KINDS) == set(FailureKind)


def test_sentences_begin_and_end_as_sentences_do() -> None:
    assert wording.sentence("wait 5 s") == "Wait 5 s."
    assert wording.sentence("Really?") == "Really?"
    assert wording.sentence("  ") == ""


def test_exposure_names_only_lanes_that_were_asked_for() -> None:
    assert wording.exposure(2, 2) == "2 exposed terminations in each lane"
    assert wording.exposure(2, 0) == "exposed terminations: 2 fresh, 0 kept"
    assert wording.exposure(2, None) == "exposed terminations: 2 fresh"


def test_echoes_have_no_fix_of_their_own() -> None:
    assert "No fix of its own: it goes away" in wording.echoes(1)
    assert "No fix of their own: they go away" in wording.echoes(7)


def test_a_cut_run_says_until_when_it_counts() -> None:
    assert wording.interrupted(12.3, complete=True).startswith("The run was interrupted at 12.30 s")
    assert "can never be a pass" in wording.interrupted(12.3, complete=False)
