from __future__ import annotations

import pytest

from loadtest.errors import WorkerError
from loadtest.load.process import check_stamp

SECOND = 1_000_000_000


@pytest.mark.parametrize("stamp", [SECOND - 1_000_000, SECOND, 2 * SECOND, 2 * SECOND + 1_000_000])
def test_a_stamp_from_within_the_exchange_is_from_our_clock(stamp: int) -> None:
    check_stamp(SECOND, stamp, 2 * SECOND)


@pytest.mark.parametrize("stamp", [0, SECOND - 1_000_001, 2 * SECOND + 1_000_001])
def test_a_stamp_more_than_a_millisecond_outside_is_not(stamp: int) -> None:
    with pytest.raises(WorkerError, match="another clock"):
        check_stamp(SECOND, stamp, 2 * SECOND)
