"""Follows a container's log. Trouble with it is a note, never the end of a run.

Source: "Pod v1 core", read log: `follow`, `timestamps`, `sinceTime`, `tailLines`; the stream ends with the container.
"""

from __future__ import annotations

from collections.abc import Callable

from loadtest.clock import Clock
from loadtest.cluster import paths
from loadtest.cluster.api import ClusterApi
from loadtest.cluster.mask import MASK, mask
from loadtest.errors import ApiError
from loadtest.model import LogLine

LONGEST_LINE = 4096
"""Bytes of a line that are kept, its timestamp not counted."""

_STAMP_ROOM = 64
_ATTEMPTS = 8
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 1.0


async def follow(
    api: ClusterApi,
    namespace: str,
    pod: str,
    container: str,
    *,
    uid: str,
    clock: Clock,
    epoch_ns: int,
    sink: Callable[[LogLine], None],
    tail: int | None = 0,
    since: str = "",
) -> str:
    """Follows until the container ends, the pod is gone, or it is cancelled.

    After a cut connection it goes on behind the last line. A container that has not started yet is waited for a little.

    Args:
        api: the API server.
        namespace: of the pod.
        pod: its name.
        container: its container whose log it is.
        uid: of the pod, for the lines.
        clock: of the run.
        epoch_ns: the run's start on that clock.
        sink: is given every line, masked and cut; must not block.
        tail: how many older lines to begin with; None: all.
        since: RFC 3339 time to begin at, instead of `tail`.

    Returns:
        "" when the log was followed to its end, else what went wrong.
    """
    query = {"container": container, "follow": "true", "timestamps": "true"}
    cleaner = LineCleaner()
    last, failures, opened = "", 0, False
    while True:
        if last or since:
            query["sinceTime"] = last or since
            query.pop("tailLines", None)
        elif tail is not None:
            query["tailLines"] = str(tail)
        try:
            async with api.stream(paths.log(namespace, pod), query=query, max_line=LONGEST_LINE + _STAMP_ROOM) as lines:
                opened = True
                async for line in lines:
                    stamp, text = cleaner.clean(line)
                    if last and stamp <= last:
                        continue  # sinceTime is inclusive
                    last, failures = stamp, 0
                    seen = clock.monotonic_ns() - epoch_ns
                    sink(LogLine(seen=seen, pod=pod, uid=uid, container=container, stamp=stamp, text=text))
                return ""
        except ApiError as error:
            if error.status == 404:
                return ""  # the pod is gone, and its log with it
            failures += 1
            # An API server that has just started refuses everybody until it has read its roles.
            if (error.status in {401, 403} and not opened) or failures >= _ATTEMPTS:
                return f"log of {pod}/{container}: {error.message}"
        await clock.sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (failures - 1)))


class LineCleaner:
    """Takes secrets out of one log, line by line. It remembers whether it is inside a private key."""

    def __init__(self) -> None:
        self._in_key = False

    def clean(self, line: bytes) -> tuple[str, str]:
        """(timestamp, text) of a line as the kubelet writes it; control characters stay, bytes that are no UTF-8 do not."""
        stamp, _, text = line.decode("utf-8", "replace").partition(" ")
        text = text[:LONGEST_LINE].rstrip("\r")
        inside = self._in_key
        if "PRIVATE KEY-----" in text:
            self._in_key = text.rfind("-----BEGIN") > text.rfind("-----END")
        return stamp, MASK if inside else mask(text)
