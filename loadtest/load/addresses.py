"""The addresses that the target's name stands for.

A literal address is used as it is. A name is looked up before the load begins and every ten seconds after (a headless Service
changes its addresses during a rollout); connections take its addresses in turn. While the last look-up has failed there is no
address, and connecting fails as `dns`: stale answers are not used, a client of the Service would have none either.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address

from loadtest.clock import Clock

REFRESH_S = 10.0
RETRY_S = 1.0

Address = tuple[socket.AddressFamily, tuple[str, int]]
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class Addresses:
    """Hands out addresses in turn."""

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        self._host = host
        self._port = port
        self._clock = clock
        self._found: tuple[Address, ...] = ()
        self._turn = 0
        self._refresher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Looks the name up, and goes on doing so; a failure is no exception."""
        try:
            literal = ip_address(self._host)
        except ValueError:
            await self._look_up()
            self._refresher = asyncio.create_task(self._refresh())
        else:
            family = socket.AF_INET if literal.version == 4 else socket.AF_INET6
            self._found = ((family, (self._host, self._port)),)

    def next(self) -> Address | None:
        """Where to connect next; None: the name has no address."""
        found = self._found
        if not found:
            return None
        self._turn = (self._turn + 1) % len(found)
        return found[self._turn]

    async def close(self) -> None:
        """Ends the look-ups."""
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.gather(self._refresher, return_exceptions=True)

    async def _refresh(self) -> None:
        while True:
            await self._clock.sleep(REFRESH_S if self._found else RETRY_S)
            await self._look_up()

    async def _look_up(self) -> None:
        try:
            infos = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # gaierror; a name that cannot be one
            self._found = ()
            return
        self._found = choose(infos)


def choose(infos: Iterable[tuple[object, ...]]) -> tuple[Address, ...]:
    """Of what `getaddrinfo` gave: IPv4 where there is any, else IPv6 (dual-stack names answer more often on IPv4)."""
    found: dict[Address, None] = {}
    for family, _, _, _, where in infos:
        if isinstance(family, socket.AddressFamily) and family in _FAMILIES and isinstance(where, tuple):
            found[family, (where[0], where[1])] = None
    four = tuple(address for address in found if address[0] == socket.AF_INET)
    return four or tuple(found)
