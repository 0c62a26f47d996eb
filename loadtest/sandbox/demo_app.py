"""A web server that can end in every way an application ends: the app of the demos, scenarios and tests.

It decides nothing about clusters and imports nothing from this package, so that it runs as a script in an image with
only Python in it. All its behaviour comes from its flags (see --help) and, at run time, from the paths
`/exit-N`, `/oom`, `/heavy`, `/disable` and `/enable`.

Its log, one line at a time on standard output: `listening ...`, `SIGTERM`, `listener closed`, `exit`, and for each
request but the probes one line at its end, `GET / 200 500.3 ms - 61 id=run-7 peer=40312 connection=3`. A request that
was cut before its answer was complete has `-` for what it does not know: `GET / - - ms - - id=run-8 ...`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

MODES = ("default", "exit", "close", "drop", "drain", "ignore")
PRESTOP_FILE = "/tmp/prestop"  # noqa: S108 - a hook makes it, and nothing is read from it
PROBES = ("/healthz", "/health", "/probe")
NEW_CONNECTION_PATIENCE = 5.0
"""Seconds that a connection without any request so far is waited for when the server stops, as in Go's net/http."""
OOM_LIMIT = 1 << 30
"""Bytes that /oom takes at most: a machine that sets no memory limit is to survive it."""


def duration(text: str) -> float:
    """Seconds from `500ms`, `5s`, `1m30s` or `0`."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    if text == "0":
        return 0.0
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 500ms, 5s or 1m30s")
    return sum(float(number) * units[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)(ms|s|m|h)", text))


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The settings that the flags and the environment ask for; each flag says in --help what it does."""
    parser = argparse.ArgumentParser(prog="demo_app", description="A web server that can end in every way an application ends.")
    add = parser.add_argument
    environment = os.environ
    add("--host", default=environment.get("POD_IP") or "0.0.0.0", help="address to listen on (default $POD_IP or all)")
    add("--port", type=int, default=int(environment.get("PORT") or 8080), help="port (default $PORT or 8080)")
    add("--app-version", default=environment.get("APP_VERSION") or "1", help="the version that answers name")
    add("--no-pod-header", action="store_true", help="answers do not name the pod in the header X-Pod-Name")
    add("--delay", type=duration, default=0.0, help="time that the handler takes, for instance 500ms")
    add("--boot", type=duration, default=0.0, help="listen only after this time")
    add("--warm-for", type=duration, default=0.0, help="answer 503, but 200 to probes, for this time after the start")
    add("--fail-for", type=duration, default=0.0, help="answer 500 to everything for this time after the start")
    add("--slow-for", type=duration, default=0.0, help="take --slow-by longer for this time after the start")
    add("--slow-by", type=duration, default=1.0, help="see --slow-for (default 1s)")
    add("--status", type=int, default=200, help="status of the answers")
    add("--fail-every", type=int, default=0, metavar="N", help="answer 503 to every Nth request")
    add("--close-every", type=int, default=0, metavar="N", help="close the connection after every Nth answer")
    add("--missing", default="", metavar="PATH", help="answer 404 to this path")
    add("--body", type=int, default=0, metavar="BYTES", help="fill the answer up to this size")
    add("--body-over", type=duration, default=0.0, help="send the answer in pieces over this time")
    add("--heavy", type=duration, default=10.0, help="time that GET /heavy blocks the whole process (default 10s)")
    add("--prestop-file", default=PRESTOP_FILE, help=f"/health says prestop when this file exists (default {PRESTOP_FILE})")
    add("--on-term", choices=MODES, default="default", help=(
        "what SIGTERM does. default: no handler, so the kernel decides (nothing, for the first process of a "
        "container). exit: exits with 0 at once. close: closes the listener and idle connections, finishes open "
        "requests, exits. drop: destroys connections with an open request, exits. drain: goes on accepting, answers "
        "with Connection: close, exits when no connection is open; after --drain-for goes on as close does. ignore: "
        "nothing"))  # fmt: skip
    add("--drain-for", type=duration, default=5.0, help="longest time to drain (default 5s)")
    add("--refuse-while-draining", action="store_true", help="after SIGTERM answer 503")
    return parser.parse_args(words)


class App:
    """The settings and everything that the connections share."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.pod = os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or "unknown"
        self.node = os.environ.get("NODE_NAME", "")
        self.started, self.started_at = time.monotonic(), time.time()
        self.connections: set[Connection] = set()
        self.accepted = self.requests = 0
        self.probe_status = 200
        self.terminating = self.closing = False
        self.done = asyncio.Event()
        self.listener: asyncio.Server | None = None

    async def run(self) -> None:
        """Serves until a signal has brought it to its end."""
        settings, loop = self.settings, asyncio.get_running_loop()
        if settings.on_term != "default":
            loop.add_signal_handler(signal.SIGTERM, self.terminate)
        try:
            await asyncio.wait_for(self.done.wait(), settings.boot)
        except TimeoutError:
            self.listener = await loop.create_server(
                lambda: Connection(self), settings.host, settings.port, backlog=1024, reuse_address=True
            )
            host, port = self.listener.sockets[0].getsockname()[:2]
            log(f"listening {host}:{port} pod={self.pod} version={settings.app_version}")
        await self.done.wait()
        log("exit")

    def terminate(self) -> None:
        """SIGTERM has come."""
        log("SIGTERM")
        mode = self.settings.on_term
        if self.terminating or mode == "ignore":
            return
        self.terminating = True
        if mode == "exit" or self.listener is None:
            os._exit(0)
        elif mode == "close":
            self.close()
        elif mode == "drop":
            self.stop_listening()
            for connection in [c for c in self.connections if c.busy]:
                connection.cut()
            self.done.set()
        elif mode == "drain":
            asyncio.get_running_loop().call_later(self.settings.drain_for, self.close)
            self.look_whether_done()

    def stop_listening(self) -> None:
        """New connections are refused from now on."""
        if self.listener is not None and self.listener.is_serving():
            self.listener.close()
            log("listener closed")

    def close(self) -> None:
        """Takes no new connection, ends the idle ones; the others end with their answer."""
        self.closing = True
        self.stop_listening()
        for connection in list(self.connections):
            if connection.idle:
                connection.transport.close()
            elif not connection.busy:
                asyncio.get_running_loop().call_later(NEW_CONNECTION_PATIENCE, connection.close_unless_busy)
        self.look_whether_done()

    def look_whether_done(self) -> None:
        """Ends the program when it was asked to end and nothing is open any more."""
        if self.terminating and self.settings.on_term in ("close", "drain") and not self.connections:
            self.done.set()

    def status(self, path: str) -> int:
        """The status of an answer that begins now."""
        settings, age = self.settings, time.monotonic() - self.started
        if age < settings.fail_for:
            return 500
        if path in PROBES:
            return self.probe_status if path == "/probe" else 200
        if age < settings.warm_for or (self.terminating and settings.refuse_while_draining):
            return 503
        if settings.missing and path == settings.missing:
            return 404
        if settings.fail_every and self.requests % settings.fail_every == 0:
            return 503
        return int(settings.status)

    def body(self, path: str) -> bytes:
        """The answer's JSON, one line."""
        content: dict[str, object] = {"pod": self.pod, "version": self.settings.app_version, "node": self.node}
        if path == "/health":
            state = "prestop" if Path(self.settings.prestop_file).exists() else "running"
            content = {"node_id": self.pod, "node_start_at": self.started_at, "status": state}
        return (json.dumps(content) + "\n").encode().ljust(self.settings.body, b" ")

    def act(self, path: str) -> None:
        """Does what some paths are for."""
        if found := re.fullmatch(r"/exit-(\d+)", path):
            os._exit(int(found[1]))
        elif path == "/oom":
            hoard = bytearray()
            while len(hoard) < OOM_LIMIT:
                hoard += b"x" * (1 << 23)
        elif path == "/heavy":
            time.sleep(self.settings.heavy)
        elif path in ("/disable", "/enable"):
            self.probe_status = 500 if path == "/disable" else 200


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection; requests that arrive early wait for their turn."""

    transport: asyncio.Transport

    def __init__(self, app: App) -> None:
        self.app = app
        app.accepted += 1
        self.number, self.port = app.accepted, 0
        self.unread = bytearray()
        self.busy = False
        self.answered = 0
        self.last = False
        self.method = self.path = self.request_id = ""
        self.began = 0.0
        self.sent_status: int | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether it has answered before and waits for the next request."""
        return not self.busy and not self.unread and self.answered > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.port = transport.get_extra_info("peername")[1]
        self.app.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the same to us
        """The connection is over, whoever ended it."""
        self.note_cut()
        self.app.connections.discard(self)
        self.app.look_whether_done()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.unread += data
        if not self.busy:
            self.read_request()

    def read_request(self) -> None:
        """Begins with the next request if it is there in full."""
        end = self.unread.find(b"\r\n\r\n")
        if end < 0:
            return
        request_line, *lines = self.unread[:end].decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length") or 0)
        if len(self.unread) < end + 4 + length:
            return
        del self.unread[: end + 4 + length]
        self.method, target, protocol = [*request_line.split(" "), "", ""][:3]
        self.path = target.partition("?")[0]
        self.request_id = headers.get("x-request-id", "-")
        self.last = protocol != "HTTP/1.1" or headers.get("connection", "").lower() == "close"
        self.busy, self.began, self.sent_status = True, time.monotonic(), None
        app, delay = self.app, 0.0
        if self.path not in PROBES:
            app.requests += 1
            delay = app.settings.delay
            if self.began - app.started < app.settings.slow_for:
                delay += app.settings.slow_by
        status = app.status(self.path)
        app.act(self.path)
        if delay:
            self.timer = asyncio.get_running_loop().call_later(delay, self.answer, status)
        else:
            self.answer(status)

    def answer(self, status: int) -> None:
        """Sends the head, and the body at once or in pieces."""
        app, settings = self.app, self.app.settings
        body = app.body(self.path)
        every = settings.close_every
        self.last = self.last or app.terminating or bool(every and (self.answered + 1) % every == 0)
        reason = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if not settings.no_pod_header:
            head += f"X-Pod-Name: {app.pod}\r\n"
        head += "Connection: close\r\n\r\n" if self.last else "\r\n"
        self.sent_status = status
        whole = body if self.method != "HEAD" else b""
        if settings.body_over and self.path not in PROBES:
            self.transport.write(head.encode())
            self.send_pieces(whole, 0)
        else:
            self.transport.write(head.encode() + whole)
            self.finish(len(whole))

    def send_pieces(self, body: bytes, piece: int, pieces: int = 20) -> None:
        """Sends one piece of the body, and the next one later."""
        size = -(-len(body) // pieces)
        self.transport.write(body[piece * size : (piece + 1) * size])
        if (piece + 1) * size >= len(body):
            self.finish(len(body))
        else:
            pause = self.app.settings.body_over / pieces
            self.timer = asyncio.get_running_loop().call_later(pause, self.send_pieces, body, piece + 1)

    def finish(self, size: int) -> None:
        """The answer is complete: notes it, and goes on with the connection or ends it."""
        self.busy, self.timer = False, None
        self.answered += 1
        if self.path not in PROBES:
            taken = (time.monotonic() - self.began) * 1000
            self.note(f"{self.sent_status} {taken:.1f} ms - {size}")
        if self.last or (self.app.closing and not self.unread):
            self.transport.close()
        else:
            self.read_request()

    def close_unless_busy(self) -> None:
        """Ends a connection that has still not asked for anything."""
        if not self.busy:
            self.transport.close()

    def cut(self) -> None:
        """Destroys the connection, whatever it is in the middle of."""
        self.note_cut()
        self.transport.abort()

    def note_cut(self) -> None:
        """The request under way will not get its whole answer."""
        if self.timer is not None:
            self.timer.cancel()
        if self.busy and self.path not in PROBES:
            self.note(f"{self.sent_status or '-'} - ms - -")
        self.busy = False

    def note(self, outcome: str) -> None:
        """Writes the request's line."""
        log(f"{self.method} {self.path} {outcome} id={self.request_id} peer={self.port} connection={self.number}")


def log(line: str) -> None:
    """One line, at once and in one piece."""
    os.write(1, line.encode() + b"\n")


async def serve(settings: argparse.Namespace) -> None:
    """Runs the app with those settings to its end."""
    await App(settings).run()


if __name__ == "__main__":
    asyncio.run(serve(arguments(sys.argv[1:])))
