"""Words into values, an outcome into an exit code. The only place that exits, reads the environment and asks a person.

Everything heavy (kubernetes, rich, asyncio itself) is imported inside the commands: `--help` must not wait for it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadtest import config
from loadtest.errors import LoadtestError, UsageError

if TYPE_CHECKING:
    from loadtest.model import RunResult, Scenario
    from loadtest.run.conduct import Conductor

_EXITS = {"pass": 0, "fail": 1, "inconclusive": 3}
_INTERRUPTED = 130

app = typer.Typer(
    name="loadtest",
    help="Holds a constant request rate on a Kubernetes Service while its Deployment rolls, and says which requests died, "
    "on which pod, why, and what to change.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Kubeconfig = Annotated[str, typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config.")]
Context = Annotated[str, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Default: the context's namespace.")]


def main() -> None:
    """The `loadtest` and `kubectl-loadtest` scripts."""
    debug = "--debug" in sys.argv
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        code = app(arguments, standalone_mode=False)
    except LoadtestError as error:
        if debug:
            raise
        _complain(error.message, error.hint)
        code = error.exit_code
    except typer.Abort:
        code = _INTERRUPTED
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except Exception as error:
        format_message = getattr(error, "format_message", None)
        if debug:
            raise
        if format_message is not None:  # the command line's own complaints: unknown flags, values of the wrong type
            _complain(str(format_message()), "see loadtest --help")
            code = 2
        else:
            _complain(
                f"a fault of the tool: {type(error).__name__}: {error}", "run it again with --debug and report what it prints"
            )
            code = 4
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, hint: str = "") -> None:
    from loadtest.report.harmless import visible

    print(f"error: {visible(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {visible(hint)}", file=sys.stderr)


def _say(text: str) -> None:
    from loadtest.report.harmless import visible

    print(visible(text), file=sys.stderr, flush=True)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        print(_version())
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("rollout-loadtest")
    except PackageNotFoundError:
        return "0+unknown"


@app.command()
def run(
    workload: Annotated[str, typer.Argument(metavar="deployment/NAME", help="What is rolled.")],
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    namespace: Namespace = "",
    qps: Annotated[float, typer.Option("--qps", help="Requests a second, over all connections.")] = 50.0,
    connections: Annotated[int, typer.Option("-c", "--connections", help="Kept connections.")] = 8,
    max_connections: Annotated[int, typer.Option(help="Limit over both lanes; 0: max(10 c, qps x timeout + c).")] = 0,
    timeout: Annotated[str, typer.Option(help="Of one request, its connect included.")] = "5s",
    lanes: Annotated[str, typer.Option(help="new,reused: fresh connections and kept ones take turns.")] = "new,reused",
    connection_reuse: Annotated[str, typer.Option(metavar="MIN:MAX", help="Requests on one kept connection.")] = "",
    url: Annotated[str, typer.Option(help="Load this URL instead of looking for the Service's address.")] = "",
    service: Annotated[str, typer.Option(help="The Service, where several match.")] = "",
    port: Annotated[str, typer.Option(help="Its port, by name or number, where it has several.")] = "",
    path: Annotated[str, typer.Option(help="Path of the URL.")] = "/",
    method: Annotated[str, typer.Option("-X", "--method", help="HTTP method.")] = "GET",
    header: Annotated[list[str] | None, typer.Option("-H", "--header", metavar="'NAME: VALUE'", help="Repeatable.")] = None,
    payload: Annotated[str, typer.Option(help="Body of each request.")] = "",
    expect_status: Annotated[list[str] | None, typer.Option(help="Statuses that are ok; default 200 to 299.")] = None,
    expect_body: Annotated[str, typer.Option(help="Text that an ok answer must hold.")] = "",
    pod_from: Annotated[
        str, typer.Option(metavar="SOURCE", help="Where answers name their pod: header=N, json=/p, body=RE, none.")
    ] = "header=X-Pod-Name",
    request_id: Annotated[bool, typer.Option(help="Send X-Request-Id with each request.")] = True,
    warmup: Annotated[str, typer.Option(help="Load before anything is measured.")] = "3s",
    baseline: Annotated[str, typer.Option(help="Load before the rollout, to compare with.")] = "20s",
    settle: Annotated[str, typer.Option(help="Load after the last old pod; default max(10s, timeout + 2s).")] = "",
    set_image: Annotated[str, typer.Option(metavar="[CONTAINER=]IMAGE", help="Roll by another image.")] = "",
    trigger: Annotated[str, typer.Option(help="restart or external: somebody else starts the rollout.")] = "restart",
    ready_file: Annotated[str, typer.Option(help="With external: written when the rollout may start.")] = "",
    wait_for_rollout: Annotated[str, typer.Option(help="With external: how long to wait for it.")] = "10m",
    rollout_timeout: Annotated[str, typer.Option(help="Default: progressDeadlineSeconds + grace + 60s.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a Deployment that is still moving.")] = False,
    min_exposure: Annotated[int, typer.Option(help="Terminations under load that a pass needs, in each lane.")] = 1,
    accept_luck: Annotated[bool, typer.Option("--accept-luck", help="Let a pass stand that was luck of timing.")] = False,
    assume_path: Annotated[
        bool, typer.Option("--assume-path", help="The address leads to these pods, though nothing shows it.")
    ] = False,
    logs: Annotated[bool, typer.Option(help="Read the logs of pods that end.")] = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and send nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Loads a Service while its Deployment rolls; says which requests died, where, and why."""
    from loadtest.model import Scenario, TriggerKind

    if trigger not in {"restart", "external"}:
        raise UsageError(f"--trigger: {trigger!r} is not known", "restart or external; --set-image IMAGE rolls by an image")
    if set_image and trigger == "external":
        raise UsageError("--set-image and --trigger external exclude each other")
    if not method.isalpha() or not method.isupper():
        raise UsageError(f"--method: {method!r} is not an HTTP method", "in capitals, such as GET")
    if not path.startswith("/") or not path.isascii() or any(ord(char) <= 32 for char in path):
        raise UsageError(f"--path: {path!r} is not a path", "it begins with a slash and is percent-encoded")
    kind = TriggerKind.SET_IMAGE if set_image else TriggerKind(trigger)
    count = int(config.number("-c", connections, least=1, most=10_000))
    scenario = Scenario(
        deployment=config.workload("deployment/NAME", workload),
        namespace=namespace or None,
        service=service,
        port=port,
        path=path,
        url=config.url("--url", url),
        qps=config.number("--qps", qps, least=0.1, most=100_000),
        connections=count,
        max_connections=int(config.number("--max-connections", max_connections, least=count, most=60_000))
        if max_connections
        else None,
        timeout_ns=config.duration("--timeout", timeout, least=10_000_000, most=600_000_000_000),
        lanes=config.lanes("--lanes", lanes),
        reuse=config.reuse("--connection-reuse", connection_reuse),
        method=method,
        headers=tuple(config.header("-H", text) for text in header or ()),
        body=payload.encode(),
        request_id=request_id,
        pod_from=config.pod_from("--pod-from", pod_from),
        expect_status=config.statuses("--expect-status", expect_status or ()),
        expect_body=expect_body,
        warmup_ns=config.duration("--warmup", warmup, least=0),
        baseline_ns=config.duration("--baseline", baseline, least=100_000_000),
        settle_ns=config.duration("--settle", settle, least=0) if settle else None,
        trigger=kind,
        image=set_image,
        ready_file=ready_file,
        wait_for_rollout_ns=config.duration("--wait-for-rollout", wait_for_rollout, least=1_000_000_000),
        rollout_timeout_ns=config.duration("--rollout-timeout", rollout_timeout, least=1_000_000_000)
        if rollout_timeout
        else None,
        wait=wait,
        logs=logs,
        min_exposure=int(config.number("--min-exposure", min_exposure, least=1, most=100_000)),
        accept_luck=accept_luck,
        assume_path=assume_path,
    )
    import asyncio

    from loadtest.run.prepare import ports_suffice

    ports_suffice(scenario)
    return asyncio.run(_run(scenario, kubeconfig=kubeconfig, context=context, out=out, dry_run=dry_run, yes=yes))


async def _run(scenario: Scenario, *, kubeconfig: str, context: str, out: Path | None, dry_run: bool, yes: bool) -> int:
    from loadtest.clock import SystemClock
    from loadtest.cluster.kubeconfig import connect
    from loadtest.run.finish import RunBrokenError, make_reports, run_prepared
    from loadtest.run.prepare import dry_run_lines, prepare, tried_lines

    clock = SystemClock()
    api = await connect(
        kubeconfig or os.environ.get("KUBECONFIG") or None, context or None, user_agent=f"rollout-loadtest/{_version()}"
    )
    async with api:
        prepared = await prepare(api, scenario, clock, _say)
        if dry_run:
            from loadtest.report.harmless import visible

            print("\n".join(visible(line) for line in dry_run_lines(prepared)))
            return 0
        confirm(prepared, yes=yes)
        for line in tried_lines(prepared):
            _say(line)
        signals = _Signals()
        trouble: RunBrokenError | None = None
        try:
            folder = await run_prepared(
                api,
                prepared,
                out=out,
                version=_version(),
                command=command_shown(sys.argv[1:]),
                clock=clock,
                say=_say,
                tick=signals.tick,
                on_conductor=signals.attach,
            )
        except RunBrokenError as error:
            trouble, folder = error, error.folder
    finished = make_reports(folder)
    _print_result(finished.result, finished.folder)
    if trouble is not None:
        raise trouble
    if signals.interrupted:
        if finished.result.rollout.undo_command and finished.result.rollout.started is not None:
            _say(f"interrupted: the rollout goes on; to take it back: {finished.result.rollout.undo_command}")
        return _INTERRUPTED
    return _EXITS[str(finished.result.outcome)]


class _Signals:
    """SIGINT and SIGTERM: the first interrupts the run, the second leaves at once."""

    def __init__(self) -> None:
        self.interrupted = False
        self._last = 0.0

    def attach(self, conductor: Conductor) -> None:
        """Takes both signals over for a run."""
        import asyncio
        import signal

        loop = asyncio.get_running_loop()

        def stop() -> None:
            if self.interrupted:
                os._exit(_INTERRUPTED)
            self.interrupted = True
            _say("interrupted: load stops, reports are being written; once more leaves at once")
            conductor.interrupt()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)

    def tick(self, progress: Any, watching: Any) -> None:
        """A line of counts every five seconds."""
        if progress.at / 1e9 - self._last < 5:
            return
        self._last = progress.at / 1e9
        _say(
            f"  {progress.at / 1e9:6.1f} s  sent {progress.sent}  ok {progress.ok}  failed {progress.failed}"
            f"{f'  dropped {progress.dropped}' if progress.dropped else ''}  kept {progress.kept}  pods {len(watching.pods)}"
        )


def confirm(prepared: Any, *, yes: bool) -> None:
    """Asks once before a cluster that is not a throwaway one is touched.

    Raises:
        UsageError: there is nobody to ask, or the answer was no.
    """
    from loadtest.run.prepare import is_throwaway

    if yes or is_throwaway(prepared.context):
        return
    target = prepared.target
    what = f"{prepared.change.name} of deployment/{target.deployment} in {target.namespace} on context {prepared.context}"
    if not sys.stdin.isatty():
        raise UsageError(
            f"{what}: needs --yes without a terminal", "a context that is not kind's or minikube's is asked about once"
        )
    _say(f"{what}, under load. Go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not confirmed; nothing was sent")


def _print_result(result: RunResult, folder: Path) -> None:
    from loadtest.report import terminal

    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    terminal.show(result, sys.stdout, report=str(folder / "report.html"), colour=colour)


_HIDDEN = frozenset({"-H", "--header", "--payload", "--expect-body"})


def command_shown(words: Sequence[str]) -> str:
    """The command line to run it again, without what may be secret: header values, payloads, queries."""
    shown, hide = [], False
    for word in words:
        name, equals, value = word.partition("=")
        if hide:
            shown.append(_hidden(word))
            hide = False
        elif name in _HIDDEN:
            shown.append(f"{name}={_hidden(value)}" if equals else word)
            hide = not equals
        elif word.startswith("-H"):
            shown.append(f"-H{_hidden(word[2:])}")
        else:
            shown.append(word.partition("?")[0])
    return shlex.join(["loadtest", *shown])


def _hidden(value: str) -> str:
    """Of a header its name, of anything else nothing."""
    name, colon, _ = value.partition(":")
    return f"{name}: ..." if colon else "..."


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of saved runs, or their run.db.")],
) -> int:
    """Makes the reports again from saved runs, broken-off ones included."""
    from loadtest.run.finish import make_reports

    code = 0
    for run_path in runs:
        finished = make_reports(run_path)
        _print_result(finished.result, finished.folder)
        code = max(code, _EXITS[str(finished.result.outcome)])
    return code


@app.command()
def access(
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    namespace: Namespace = "",
    verify: Annotated[bool, typer.Option("--verify", help="Ask the cluster which of them are missing.")] = False,
) -> int:
    """Prints the rights that a run needs, as Role YAML."""
    import asyncio

    from loadtest.cluster import access as rights
    from loadtest.cluster.kubeconfig import connect

    if not verify:
        print(rights.role_yaml(namespace or "default"), end="")
        return 0

    async def ask() -> tuple[tuple[str, ...], tuple[str, ...]]:
        api = await connect(kubeconfig or os.environ.get("KUBECONFIG") or None, context or None)
        async with api:
            return await rights.missing(api, namespace or api.namespace)

    required, optional = asyncio.run(ask())
    for name in required:
        print(f"missing: {name}")
    for name in optional:
        print(f"missing, optional: {name}")
    if not required and not optional:
        print("complete")
    return 4 if required else 0


@app.command(hidden=True)
def worker() -> int:
    """One load worker: a plan on standard input, frames on standard output."""
    from loadtest.load.worker import main as work

    return int(work() or 0)
