"""The demo app as a real process on loopback: what it answers, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "loadtest" / "sandbox" / "demo_app.py"


class Running:
    """A demo app that listens on a free port of 127.0.0.1."""

    def __init__(self, flags: tuple[str, ...]) -> None:
        command = [sys.executable, str(APP), "--host", "127.0.0.1", "--port", "0", *flags]
        environment = {**os.environ, "POD_NAME": "web-1", "NODE_NAME": "node-1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.port = int(re.findall(r":(\d+) ", self.line("listening"))[0])

    def line(self, words: str) -> str:
        """Waits for the log line that holds those words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return line
        raise AssertionError(f"the log ended without {words!r}")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def terminate(self) -> None:
        """Sends SIGTERM and waits until the app has noticed."""
        self.process.send_signal(signal.SIGTERM)
        self.line("SIGTERM")

    def end(self) -> tuple[int, str]:
        """Waits for the end: exit code and the rest of the log."""
        rest, _ = self.process.communicate(timeout=10)
        return self.process.returncode, rest


Start = Callable[..., Running]


def until_taken(app: Running) -> None:
    """Until the app has read what was sent to it before: it serves all connections in one loop, and answers this one after."""
    for _ in range(3):
        assert ask(app, "/healthz")[0] == 200


@pytest.fixture
def start() -> Iterator[Start]:
    apps: list[Running] = []

    def begin(*flags: str) -> Running:
        apps.append(Running(flags))
        return apps[-1]

    yield begin
    for app in apps:
        app.process.kill()
        app.process.communicate()


def send(connection: socket.socket, path: str = "/", method: str = "GET", name: str = "r-1") -> None:
    connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: web\r\nX-Request-Id: {name}\r\n\r\n".encode())


def receive(connection: socket.socket, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
    """One whole answer: status, headers, body. Status 0 for a connection that ended instead."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return 0, {}, data
            data += chunk
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        while body and len(rest) < int(headers["content-length"]):
            chunk = connection.recv(65536)
            if not chunk:
                return 0, headers, rest
            rest += chunk
    except ConnectionResetError:
        return 0, {}, data
    return int(lines[0].split()[1]), headers, rest


def ask(app: Running, path: str = "/", method: str = "GET", name: str = "r-1") -> tuple[int, dict[str, str], bytes]:
    with app.connect() as connection:
        send(connection, path, method, name)
        return receive(connection, body=method != "HEAD")


def test_every_answer_names_the_pod_in_a_header_and_in_its_json_body(start: Start) -> None:
    status, headers, body = ask(start("--app-version", "2"))
    assert (status, headers["x-pod-name"]) == (200, "web-1")
    assert json.loads(body) == {"pod": "web-1", "version": "2", "node": "node-1"}


def test_the_header_can_be_left_out(start: Start) -> None:
    assert "x-pod-name" not in ask(start("--no-pod-header"))[1]


def test_a_head_request_gets_the_head_alone(start: Start) -> None:
    app = start()
    with app.connect() as connection:
        send(connection, method="HEAD")
        status, headers, body = receive(connection, body=False)
        assert (status, body) == (200, b"")
        assert int(headers["content-length"]) > 0
        send(connection)
        assert receive(connection)[0] == 200


def test_a_posted_body_is_read_and_the_connection_goes_on(start: Start) -> None:
    app = start()
    with app.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 4\r\n\r\nab")
        connection.sendall(b"cd")
        assert receive(connection)[0] == 200
        send(connection)
        assert receive(connection)[0] == 200


def test_requests_that_arrive_together_are_answered_in_turn(start: Start) -> None:
    with start("--delay", "20ms").connect() as connection:
        send(connection, name="r-1")
        send(connection, name="r-2")
        assert [receive(connection)[0], receive(connection)[0]] == [200, 200]


def test_every_request_leaves_one_line_with_its_id_and_its_connection(start: Start) -> None:
    app = start()
    with app.connect() as connection:
        for name in ("r-1", "r-2"):
            send(connection, "/a", name=name)
            receive(connection)
        port = connection.getsockname()[1]
        assert re.fullmatch(rf"GET /a 200 \d+\.\d ms - \d+ id=r-1 peer={port} connection=1\n", app.line("r-1"))
        assert f"id=r-2 peer={port} connection=1" in app.line("r-2")


def test_a_probe_is_answered_at_once_and_leaves_no_line(start: Start) -> None:
    app = start("--delay", "300ms")
    began = time.monotonic()
    assert ask(app, "/healthz", name="probe")[0] == 200
    assert time.monotonic() - began < 0.2
    ask(app, name="real")
    assert "id=real" in app.line("GET")


def test_a_client_that_leaves_before_its_answer_leaves_a_line_without_a_status(start: Start) -> None:
    app = start("--delay", "5s")
    with app.connect() as connection:
        send(connection, name="r-7")
    assert app.line("r-7").startswith("GET / - - ms - - id=r-7 ")


def test_nothing_listens_before_the_boot_time_is_over(start: Start) -> None:
    began = time.monotonic()
    start("--boot", "300ms")
    assert time.monotonic() - began > 0.3


def test_every_nth_request_fails_when_asked_to(start: Start) -> None:
    app = start("--fail-every", "3")
    assert [ask(app)[0] for _ in range(6)] == [200, 200, 503, 200, 200, 503]


def test_every_nth_answer_closes_its_connection_when_asked_to(start: Start) -> None:
    with start("--close-every", "2").connect() as connection:
        send(connection)
        assert "connection" not in receive(connection)[1]
        send(connection)
        assert receive(connection)[1]["connection"] == "close"
        assert connection.recv(1) == b""


def test_everything_fails_for_a_time_after_the_start_when_asked_to(start: Start) -> None:
    app = start("--fail-for", "400ms")
    assert [ask(app, path)[0] for path in ("/", "/healthz")] == [500, 500]
    time.sleep(0.5)
    assert [ask(app, path)[0] for path in ("/", "/healthz")] == [200, 200]


def test_while_it_warms_up_only_the_probe_succeeds(start: Start) -> None:
    app = start("--warm-for", "1m")
    assert [ask(app, path)[0] for path in ("/", "/healthz")] == [503, 200]


def test_the_probe_path_can_be_made_to_fail_and_to_recover(start: Start) -> None:
    app = start()
    assert [ask(app, path)[0] for path in ("/probe", "/disable", "/probe", "/enable", "/probe")] == [200, 200, 500, 200, 200]


def test_the_exit_path_ends_the_process_with_that_code_and_no_answer(start: Start) -> None:
    app = start()
    assert ask(app, "/exit-3")[0] == 0
    assert app.end()[0] == 3


def test_health_says_prestop_once_the_hook_has_run(start: Start, tmp_path: Path) -> None:
    hook = tmp_path / "prestop"
    app = start("--prestop-file", str(hook))
    first = json.loads(ask(app, "/health")[2])
    hook.touch()
    second = json.loads(ask(app, "/health")[2])
    assert (first["node_id"], first["status"], second["status"]) == ("web-1", "running", "prestop")
    assert first["node_start_at"] == second["node_start_at"]


def test_a_large_answer_can_be_sent_slowly(start: Start) -> None:
    began = time.monotonic()
    status, _, body = ask(start("--body", "100000", "--body-over", "200ms"))
    assert (status, len(body)) == (200, 100000)
    assert time.monotonic() - began > 0.15


def test_without_a_handler_the_signal_itself_ends_the_process(start: Start) -> None:
    app = start()
    app.process.terminate()
    assert app.end() == (-signal.SIGTERM, "")


def test_exit_ends_at_once_and_cuts_the_open_request(start: Start) -> None:
    app = start("--on-term", "exit", "--delay", "5s")
    with app.connect() as connection:
        send(connection)
        until_taken(app)
        app.terminate()
        assert app.end()[0] == 0
        assert receive(connection)[0] == 0


def test_close_refuses_new_connections_ends_idle_ones_and_finishes_open_requests(start: Start) -> None:
    app = start("--on-term", "close", "--delay", "500ms")
    with app.connect() as idle, app.connect() as busy:
        send(idle)
        receive(idle)
        send(busy, name="open")
        until_taken(app)
        app.terminate()
        app.line("listener closed")
        with pytest.raises(ConnectionRefusedError):
            app.connect()
        assert receive(idle)[0] == 0
        status, headers, _ = receive(busy)
        assert (status, headers["connection"]) == (200, "close")
        code, rest = app.end()
        assert code == 0
        assert "GET / 200" in rest
        assert rest.endswith("exit\n")


def test_drop_destroys_open_requests_and_leaves_a_line_for_each(start: Start) -> None:
    app = start("--on-term", "drop", "--delay", "5s")
    with app.connect() as one, app.connect() as two:
        send(one, name="r-1")
        send(two, name="r-2")
        until_taken(app)
        app.terminate()
        code, rest = app.end()
        assert code == 0
        assert sorted(re.findall(r"GET / - - ms - - id=(\S+)", rest)) == ["r-1", "r-2"]
        assert [receive(one)[0], receive(two)[0]] == [0, 0]


def test_drain_goes_on_accepting_and_closes_each_connection_with_its_answer(start: Start) -> None:
    app = start("--on-term", "drain", "--drain-for", "5s")
    with app.connect() as kept:
        send(kept)
        receive(kept)
        app.terminate()
        assert ask(app)[1]["connection"] == "close"
        send(kept)
        status, headers, _ = receive(kept)
        assert (status, headers["connection"]) == (200, "close")
    code, rest = app.end()
    assert code == 0
    assert "listener closed" not in rest


def test_drain_leaves_an_idle_connection_alone_until_its_time_is_over(start: Start) -> None:
    app = start("--on-term", "drain", "--drain-for", "400ms")
    with app.connect() as idle:
        send(idle)
        receive(idle)
        app.terminate()
        began = time.monotonic()
        assert receive(idle)[0] == 0
        assert time.monotonic() - began > 0.3
        assert app.end()[0] == 0


def test_drain_finishes_the_open_request_even_past_its_time(start: Start) -> None:
    app = start("--on-term", "drain", "--drain-for", "100ms", "--delay", "600ms")
    with app.connect() as busy:
        send(busy)
        until_taken(app)
        app.terminate()
        assert receive(busy)[0] == 200
        assert app.end()[0] == 0


def test_drain_can_refuse_with_an_answer(start: Start) -> None:
    app = start("--on-term", "drain", "--refuse-while-draining")
    with app.connect():
        until_taken(app)
        app.terminate()
        assert ask(app)[0] == 503


def test_drain_with_nothing_open_ends_at_once(start: Start) -> None:
    app = start("--on-term", "drain")
    app.terminate()
    assert app.end()[0] == 0


def test_ignore_goes_on_as_if_nothing_had_been_said(start: Start) -> None:
    app = start("--on-term", "ignore")
    with app.connect() as connection:
        until_taken(app)
        app.terminate()
        send(connection)
        assert "connection" not in receive(connection)[1]
        assert app.process.poll() is None


def test_help_explains_every_way_to_end() -> None:
    said = subprocess.run([sys.executable, str(APP), "--help"], capture_output=True, text=True, check=True).stdout
    assert "--on-term {default,exit,close,drop,drain,ignore}" in said
    for mode in ("default", "exit", "close", "drop", "drain", "ignore"):
        assert f"{mode}: " in " ".join(said.split())
