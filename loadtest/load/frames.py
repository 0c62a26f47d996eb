"""How conductor and worker write to each other: JSON lines one way, length-prefixed frames the other.

A frame is a type byte, a length (u32, big-endian) and a payload: packed columns with their row count in front, or one JSON
object. Decides: nothing. Both sides run the same version of the tool on the same machine, so there is no negotiation; a
frame that does not fit is an error.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import asdict, dataclass
from typing import Any

from loadtest.columns import CONNECTION_COLUMNS, REQUEST_COLUMNS, ConnectionBlock, RequestBlock, pack, unpack
from loadtest.model import (
    Drop,
    DropReason,
    Failure,
    FailureKind,
    Lane,
    LoadEnd,
    LoadPlan,
    OpenRequest,
    PodFrom,
    PodName,
    PodSource,
    Progress,
    WorkerLost,
)

HEADER = struct.Struct("!cI")
_COUNT = struct.Struct("!II")  # worker, rows
MOST_PAYLOAD = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A worker's first word. `stamp_ns`: its monotonic clock at that moment."""

    stamp_ns: int


Message = RequestBlock | ConnectionBlock | PodName | Failure | Drop | OpenRequest | Progress | LoadEnd | WorkerLost
"""What a worker's conductor gets to see. `WorkerLost` is never sent: the conductor's side finds it out."""

_BLOCKS: dict[bytes, tuple[type[RequestBlock | ConnectionBlock], tuple[tuple[str, str], ...]]] = {
    b"R": (RequestBlock, REQUEST_COLUMNS),
    b"C": (ConnectionBlock, CONNECTION_COLUMNS),
}
_VALUES = {b"H": Hello, b"N": PodName, b"F": Failure, b"D": Drop, b"O": OpenRequest, b"G": Progress, b"E": LoadEnd}
_TYPES: dict[type, bytes] = {cls: letter for letter, cls in _VALUES.items()}
_ENUMS = {"kind": FailureKind, "reason": DropReason, "lane": Lane}


def frame(message: Message | Hello) -> bytes:
    """The message as it travels."""
    for letter, (cls, layout) in _BLOCKS.items():
        if isinstance(message, cls):
            payload = _COUNT.pack(message.worker, len(message)) + pack(message.columns, layout)
            return HEADER.pack(letter, len(payload)) + payload
    # Not `asdict`, which copies deeply: a failing target makes thousands of these in a second.
    payload = json.dumps({name: getattr(message, name) for name in type(message).__slots__}).encode()
    return HEADER.pack(_TYPES[type(message)], len(payload)) + payload


def message_of(letter: bytes, payload: bytes) -> Message | Hello:
    """The reverse of `frame`.

    Raises:
        ValueError: it is not a frame of ours.
    """
    if letter in _BLOCKS:
        cls, layout = _BLOCKS[letter]
        worker, count = _COUNT.unpack_from(payload)
        block: Message = cls(worker=worker, columns=unpack(payload[_COUNT.size :], count, layout))
        return block
    if letter not in _VALUES:
        raise ValueError(f"unknown frame {letter!r}")
    facts = json.loads(payload)
    for name, enum in _ENUMS.items():
        if name in facts:
            facts[name] = enum(facts[name])
    message: Message | Hello = _VALUES[letter](**facts)
    return message


def plan_line(plan: LoadPlan) -> bytes:
    """The plan as one line."""
    facts = asdict(plan) | {"body": base64.b64encode(plan.body).decode()}
    return json.dumps(facts).encode() + b"\n"


def plan_of(line: bytes) -> LoadPlan:
    """The reverse of `plan_line`.

    Raises:
        ValueError, TypeError, KeyError: it is no plan.
    """
    facts: dict[str, Any] = json.loads(line)
    pod_from = facts["pod_from"]
    return LoadPlan(
        **facts
        | {
            "body": base64.b64decode(facts["body"]),
            "lanes": tuple(Lane(lane) for lane in facts["lanes"]),
            "reuse": tuple(facts["reuse"]),
            "headers": tuple((name, value) for name, value in facts["headers"]),
            "expect_status": tuple(facts["expect_status"]),
            "pod_from": pod_from and PodFrom(source=PodSource(pod_from["source"]), value=pod_from["value"]),
        }
    )


def stop_line(at_ns: int) -> bytes:
    """The command to send nothing that is due at or after this monotonic time."""
    return json.dumps({"command": "stop", "at": at_ns}).encode() + b"\n"


def cut_line() -> bytes:
    """The command to end at once."""
    return b'{"command": "cut"}\n'
