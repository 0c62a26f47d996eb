from __future__ import annotations

from typing import Any

from loadtest.columns import ABSENT, RequestBlock, rows
from loadtest.load.podname import PodNames
from loadtest.load.recorder import FULL, Recorded, Recorder
from loadtest.load.sender import Attempt
from loadtest.model import FAILURE_KINDS, Failure, FailureKind, Lane, PodName

EPOCH = 5_000


def attempt(seq: int = 1, **facts: Any) -> Attempt:
    made = Attempt(seq, EPOCH + 10, Lane.REUSED, EPOCH + 20)
    made.ended = EPOCH + 50
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def recorder() -> tuple[Recorder, list[Recorded], PodNames]:
    seen: list[Recorded] = []
    names = PodNames()
    return Recorder(3, EPOCH, names, seen.extend), seen, names


def test_times_count_from_the_runs_start_and_what_never_came_is_absent() -> None:
    memory, seen, _ = recorder()
    memory.request(attempt(written=EPOCH + 30, connect=7, kind=FailureKind.RESPONSE_TIMEOUT))
    memory.flush()

    block = seen[0]
    assert isinstance(block, RequestBlock)
    assert block.worker == 3
    assert list(rows(block, "due", "started", "written", "first_byte", "ended", "connect")) == [(10, 20, 30, ABSENT, 50, 7)]


def test_a_failed_request_has_its_kind_in_the_row_and_a_value_beside_it() -> None:
    memory, seen, names = recorder()
    pod = names.index("web-1")
    facts: dict[str, Any] = {"errno": 104, "received": 9, "answers_before": 2, "connection_age": 8, "peer": "p"}
    memory.request(attempt(kind=FailureKind.TRUNCATED, connection_pod=pod, **facts))
    memory.flush()

    name, block, failure = seen
    assert name == PodName(worker=3, index=1, name="web-1")
    assert isinstance(block, RequestBlock)
    assert FAILURE_KINDS[block.columns["kind"][0] - 1] is FailureKind.TRUNCATED
    assert failure == Failure(
        worker=3,
        seq=1,
        kind=FailureKind.TRUNCATED,
        errno=104,
        received=9,
        answers_before=2,
        connection_age_ns=8,
        connection_pod="web-1",
        peer="p",
    )


def test_a_pods_name_comes_before_the_first_row_that_uses_it_and_only_once() -> None:
    memory, seen, names = recorder()
    for _ in range(2):
        memory.request(attempt(pod=names.index("web-1")))
        memory.flush()

    assert [type(value) for value in seen] == [PodName, RequestBlock, RequestBlock]


def test_a_full_block_is_handed_over_at_once() -> None:
    memory, seen, _ = recorder()
    for seq in range(FULL + 1):
        memory.request(attempt(seq))

    assert [len(block) for block in seen if isinstance(block, RequestBlock)] == [FULL]
    memory.flush()
    memory.flush()
    assert [len(block) for block in seen if isinstance(block, RequestBlock)] == [FULL, 1]
