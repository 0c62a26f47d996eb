"""The worker runs with the collector off: nothing may depend on it."""

from __future__ import annotations

import gc

import pytest

from loadtest.model import Lane
from tests.sandbox.load.runs import plan_for, run_here
from tests.servers import Request, Server, Wire, well


@pytest.mark.parametrize("lane", Lane)
def test_connections_leave_no_cycles_behind_however_they_end(lane: Lane) -> None:
    def some_fail(wire: Wire, request: Request) -> None:
        if request.total % 4 == 3:
            (wire.rst if request.total % 8 == 3 else wire.fin)()
        else:
            well(wire, request)

    with Server(some_fail) as server:
        run_here(plan_for(server.url, total=20, qps=400.0, lanes=(lane,)))
        gc.collect()
        gc.disable()
        try:
            run_here(plan_for(server.url, total=400, qps=800.0, lanes=(lane,)))
            left = gc.collect()
        finally:
            gc.enable()

    assert left < 400  # of the loop and the run, not of each request
