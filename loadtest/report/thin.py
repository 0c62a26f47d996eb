"""Which failed requests are listed when there are too many to list. Counting is never thinned, only listing. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from loadtest.model import FailedRequest

LIMIT = 2_000
EDGE = 50


def thin(failed: Sequence[FailedRequest], limit: int = LIMIT, edge: int = EDGE) -> tuple[FailedRequest, ...]:
    """At most `limit` of `failed`, in their order: rare groups whole, of the others both ends and every k-th between.

    A group is one cause, pods and kind together: what happened once must not fall out because something else happened often.
    Where even the ends are too many, ends get shorter until they fit.
    """
    if len(failed) <= limit:
        return tuple(failed)
    groups: dict[tuple[str, tuple[str, ...], str], list[int]] = defaultdict(list)
    for position, one in enumerate(failed):
        groups[one.cause, one.attribution.pods, one.kind].append(position)
    kept: set[int] = set()
    while True:
        kept = {position for group in groups.values() for position in [*group[:edge], *(group[-edge:] if edge else [])]}
        if len(kept) <= limit or not edge:
            break
        edge //= 2
    rest = [position for position in range(len(failed)) if position not in kept]
    room = limit - len(kept)
    kept.update(rest[index * len(rest) // room] for index in range(room))
    return tuple(failed[position] for position in sorted(kept))
