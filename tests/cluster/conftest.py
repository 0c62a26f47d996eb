"""The fixtures `cluster`, one real Kubernetes for the whole test session, and `namespace`, a fresh one in it.

Tests that start clusters of their own use `no_cluster` and run before all others, because there can be only one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.cluster import control
from tests.cluster.cluster import Cluster
from tests.cluster.trouble import ClusterError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with `no_cluster` first; apart from that the order stays."""
    items.sort(key=lambda item: "no_cluster" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes, for the session. One that was started by hand, or by the same process, is used and left up."""
    if Cluster.usable():
        yield Cluster.attach()
        return
    try:
        up = Cluster.up(lambda line: print(line, file=sys.stderr))
    except ClusterError as error:
        pytest.fail(str(error), pytrace=False)
    with up:
        yield up


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of its own for one test."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def no_cluster() -> None:
    """For tests that start clusters of their own."""
    if control.tell_watchdog("status"):
        pytest.fail("this test starts a cluster of its own, but one is up: python -m tests.cluster down", pytrace=False)
