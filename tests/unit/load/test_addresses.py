from __future__ import annotations

import socket

from loadtest.load.addresses import Addresses, choose
from tests.fakes import FakeClock

FOUR = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80))
OTHER_FOUR = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 80))
SIX = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 80, 0, 0))


def test_ipv4_is_taken_where_there_is_any() -> None:
    assert choose([SIX, FOUR, OTHER_FOUR, FOUR]) == (
        (socket.AF_INET, ("10.0.0.1", 80)),
        (socket.AF_INET, ("10.0.0.2", 80)),
    )


def test_a_name_that_has_only_ipv6_addresses_can_be_reached() -> None:
    assert choose([SIX]) == ((socket.AF_INET6, ("fd00::1", 80)),)


async def test_a_literal_address_is_not_looked_up() -> None:
    for literal, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        addresses = Addresses(literal, 80, FakeClock())
        await addresses.start()
        assert addresses.next() == (family, (literal, 80))
        await addresses.close()


async def test_a_name_that_cannot_be_one_has_no_address() -> None:
    addresses = Addresses("a" * 64 + ".invalid", 80, FakeClock())
    await addresses.start()

    assert addresses.next() is None
    await addresses.close()
