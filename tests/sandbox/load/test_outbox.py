from __future__ import annotations

import os
import threading

from loadtest.load.outbox import MOST_WAITING, Outbox


def test_a_reader_that_does_not_read_blocks_nobody_and_is_found_out() -> None:
    read_fd, write_fd = os.pipe()
    broken = threading.Event()
    outbox = Outbox(write_fd, broken.set)
    piece = bytes(MOST_WAITING // 8)

    for _ in range(8):
        assert not outbox.full
        outbox.put(piece)
    outbox.put(piece)
    assert outbox.full

    os.close(read_fd)
    assert broken.wait(5)
    outbox.close(1.0)
    os.close(write_fd)


def test_what_was_put_arrives_in_order_before_the_end() -> None:
    read_fd, write_fd = os.pipe()
    outbox = Outbox(write_fd, lambda: None)
    for at in range(100):
        outbox.put(b"%03d" % at)
    outbox.close(5.0)
    os.close(write_fd)

    with os.fdopen(read_fd, "rb") as stream:
        assert stream.read() == b"".join(b"%03d" % at for at in range(100))
