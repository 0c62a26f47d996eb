"""The command line's own decisions."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from loadtest import cli
from loadtest.cluster import trigger
from loadtest.errors import UsageError
from loadtest.model import Scenario, Target
from loadtest.run.prepare import Prepared


def prepared(context: str) -> Prepared:
    return Prepared(
        scenario=Scenario(deployment="web"),
        target=Target(
            namespace="shop",
            deployment="web",
            service="web",
            selector="app=web",
            url="http://10.0.0.1:31213/",
            path_from="node-port",
        ),
        deployment={},
        change=trigger.external(),
        tried=(),
        missing=(),
        server_version="v1.36.3",
        context=context,
        rollout_timeout_ns=1,
    )


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["run", "deployment/web", "-H", "Authorization: Bearer secret"], "loadtest run deployment/web -H 'Authorization: ...'"),
        (
            ["run", "deployment/web", "--header=Authorization: secret"],
            "loadtest run deployment/web '--header=Authorization: ...'",
        ),
        (["run", "deployment/web", "-HCookie: secret"], "loadtest run deployment/web '-HCookie: ...'"),
        (["run", "deployment/web", "--payload", "secret"], "loadtest run deployment/web --payload ..."),
        (["run", "deployment/web", "--payload=secret"], "loadtest run deployment/web --payload=..."),
        (["run", "deployment/web", "--url", "http://x/?token=secret"], "loadtest run deployment/web --url http://x/"),
        (["run", "deployment/web", "--url=http://x/?token=secret"], "loadtest run deployment/web --url=http://x/"),
        (["run", "deployment/web", "--path", "/a?token=secret"], "loadtest run deployment/web --path /a"),
        (["run", "deployment/web", "--expect-body", "secret"], "loadtest run deployment/web --expect-body ..."),
        (["run", "deployment/web", "--qps", "32"], "loadtest run deployment/web --qps 32"),
    ],
)
def test_the_command_to_run_it_again_shows_no_secret(words: list[str], shown: str) -> None:
    assert cli.command_shown(words) == shown
    assert "secret" not in cli.command_shown(words)


@pytest.mark.parametrize("context", ["kind-kind", "minikube", "sandbox"])
def test_a_throwaway_cluster_is_not_asked_about(context: str) -> None:
    cli.confirm(prepared(context), yes=False)


def test_without_a_terminal_another_cluster_needs_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="needs --yes"):
        cli.confirm(prepared("production"), yes=False)
    cli.confirm(prepared("production"), yes=True)


class Terminal(io.StringIO):
    """A standard input with a person behind it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_only_a_yes_goes_on(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(UsageError, match="nothing was sent"):
        cli.confirm(prepared("production"), yes=False)


def test_a_yes_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    cli.confirm(prepared("production"), yes=False)
    assert "production" in capsys.readouterr().err


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["loadtest", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    code: Any = left.value.code
    return int(code)


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "web"),
        ("run", "pod/web"),
        ("run", "deployment/Web"),
        ("run", "deployment/web", "--trigger", "magic"),
        ("run", "deployment/web", "--set-image", "x:1", "--trigger", "external"),
        ("run", "deployment/web", "-X", "get"),
        ("run", "deployment/web", "--path", "no-slash"),
        ("run", "deployment/web", "-H", "no colon"),
        ("run", "deployment/web", "-H", "Content-Length: 5"),
        ("run", "deployment/web", "--pod-from", "json=pod"),
        ("run", "deployment/web", "--url", "http://user:pass@x/"),
        ("run", "deployment/web", "--qps", "nan"),
        ("run", "deployment/web", "--min-exposure", "0"),
        ("fly",),
        ("--no-such",),
    ],
)
def test_bad_words_are_one_line_one_hint_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert call(monkeypatch, *words) == 2
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2
    assert "pass@" not in said.err
    assert said.out == ""


def test_a_run_that_is_not_there_is_exit_4(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "report", "no-such-folder") == 4
    assert "no such run" in capsys.readouterr().err


def test_the_rights_are_printed_as_a_role(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "access", "-n", "shop") == 0
    assert "kind: Role" in capsys.readouterr().out
