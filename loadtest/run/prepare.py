"""Everything that must be right before anything is sent: rights, a settled Deployment, an address that answers, a trigger."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loadtest.clock import Clock
from loadtest.cluster import access, address, trigger
from loadtest.cluster.api import ClusterApi, get, list_all, server_version
from loadtest.cluster.probe import probe
from loadtest.cluster.rollout import is_settled, selector_query
from loadtest.errors import ApiError, ClusterError, UsageError
from loadtest.model import Resource, Scenario, Target, TriggerKind

SETTLE_POLL_S = 1.0
PROBE_S = 2.0
WAIT_NS = 600_000_000_000
DEFAULT_GRACE_S = 30
DEFAULT_DEADLINE_S = 600
_EPHEMERAL_PORTS = 28_000
_TIME_WAIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a run stands on.

    Attributes:
        tried: each address that was tried, with its result, for printing.
        missing: optional rights that are not there.
        rollout_timeout_ns: progressDeadlineSeconds + grace + 60 s, or what was asked for.
    """

    scenario: Scenario
    target: Target
    deployment: Mapping[str, Any]
    change: trigger.Change
    tried: tuple[address.Tried, ...]
    missing: tuple[str, ...]
    server_version: str
    context: str
    rollout_timeout_ns: int


async def prepare(api: ClusterApi, scenario: Scenario, clock: Clock, say: Callable[[str], None]) -> Prepared:
    """Checks and finds; sends nothing but one request to each address that is tried.

    Raises:
        UsageError: no such Deployment, no or several Services, an image that changes nothing.
        ClusterError: rights are missing, nothing answers, the Deployment is not settled.
    """
    namespace = scenario.namespace or api.namespace
    version = await server_version(api)
    patches = scenario.trigger is not TriggerKind.EXTERNAL
    missing = await access.verify(api, namespace, patches=patches)
    deployment = await _deployment(api, namespace, scenario.deployment)
    change = _change(deployment, scenario, clock)
    deployment = await _settled(api, namespace, deployment, scenario, clock, say)
    ask = functools.partial(probe, timeout_s=max(PROBE_S, scenario.timeout_ns / 1e9))
    found = await address.find(
        api,
        deployment,
        url=scenario.url,
        service=scenario.service,
        port=scenario.port,
        path=scenario.path,
        prober=ask,
        careful_prober=functools.partial(ask, only_ok=True),
    )
    if scenario.url:
        await _answers(found.url, ask)
    if change.path:
        await trigger.send(api, change, dry_run=True)
    return Prepared(
        scenario=scenario,
        target=Target(
            namespace=namespace,
            deployment=scenario.deployment,
            service=found.service,
            selector=selector_query(deployment),
            url=found.url,
            path_from=found.path_from,
            session_affinity=found.session_affinity,
            port=found.port,
        ),
        deployment=deployment,
        change=change,
        tried=found.tried,
        missing=missing,
        server_version=version,
        context=api.context,
        rollout_timeout_ns=scenario.rollout_timeout_ns or _rollout_timeout(deployment),
    )


def is_throwaway(context: str) -> bool:
    """A cluster that nobody needs to be asked about: kind's, minikube's, the sandbox's."""
    return context.startswith("kind-") or context in {"minikube", "sandbox"}


def dry_run_lines(prepared: Prepared) -> list[str]:
    """What would happen, for `--dry-run`."""
    scenario, target = prepared.scenario, prepared.target
    warmup, baseline, settle = scenario.warmup_ns / 1e9, scenario.baseline_ns / 1e9, scenario.settle / 1e9
    known = round(scenario.qps * (warmup + baseline + settle))
    lines = [
        *tried_lines(prepared),
        f"target     deployment/{target.deployment} in {target.namespace} (context {prepared.context})",
    ]
    lines.append(
        f"rights     complete{'' if not prepared.missing else ', but for optional ones: ' + ', '.join(prepared.missing)}"
    )
    change = prepared.change
    patch = f"PATCH {change.path}" if change.path else "nothing is sent: the rollout is started by somebody else"
    lines.append(f"trigger    {change.name}: {change.detail}; {patch}")
    lines.append(
        f"load       {scenario.qps:g} requests/s on {target.url}, {scenario.connections} kept connections "
        f"(at most {scenario.most_connections} in all), lanes {','.join(lane.label for lane in scenario.lanes)}"
    )
    lines.append(
        f"phases     warm-up {warmup:g} s, baseline {baseline:g} s, rollout until its last old pod is gone, settle {settle:g} s"
    )
    lines.append(f"requests   {known} and {scenario.qps:g} for each second of the rollout")
    return lines


def tried_lines(prepared: Prepared) -> list[str]:
    """Each address that was tried, with its result."""
    if not prepared.tried:
        return [f"address    {prepared.target.url} (as given)"]
    return [
        f"address    {one.url} ({one.path_from}): {one.detail}{'  <- used' if one.url == prepared.target.url else ''}"
        for one in prepared.tried
    ]


def ports_suffice(scenario: Scenario) -> None:
    """Refuses a rate of fresh connections that would run out of source ports.

    Raises:
        UsageError: more than the ephemeral ports that come free again in time (60 s of TIME_WAIT).
    """
    share = sum(1 for lane in scenario.lanes if lane.label == "new") / len(scenario.lanes)
    if scenario.qps * share * _TIME_WAIT_S > _EPHEMERAL_PORTS:
        raise UsageError(
            f"--qps {scenario.qps:g} with fresh connections needs more source ports than come free again",
            f"at most {int(_EPHEMERAL_PORTS / _TIME_WAIT_S / share)} with these lanes, or --lanes reused",
        )


async def _deployment(api: ClusterApi, namespace: str, name: str) -> Mapping[str, Any]:
    try:
        return await get(api, Resource.DEPLOYMENTS, namespace, name)
    except ApiError as error:
        if error.status == 404:
            raise UsageError(
                f"deployment/{name}: not found in namespace {namespace}",
                "look for it with kubectl get deployments -A; choose with -n",
            ) from error
        raise


def _change(deployment: Mapping[str, Any], scenario: Scenario, clock: Clock) -> trigger.Change:
    match scenario.trigger:
        case TriggerKind.RESTART:
            return trigger.restart(deployment, wall_ns=clock.wall_ns())
        case TriggerKind.SET_IMAGE:
            return trigger.set_image(deployment, scenario.image)
        case TriggerKind.EXTERNAL:
            return trigger.external()


async def _settled(
    api: ClusterApi,
    namespace: str,
    deployment: Mapping[str, Any],
    scenario: Scenario,
    clock: Clock,
    say: Callable[[str], None],
) -> Mapping[str, Any]:
    """The Deployment once it stands still.

    Raises:
        ClusterError: it does not, and `--wait` was not given or did not help.
    """
    until = clock.monotonic_ns() + WAIT_NS
    said = ""
    while True:
        pods = await list_all(api, Resource.PODS, namespace, selector=selector_query(deployment))
        why = is_settled(deployment, pods)
        if why is None:
            return deployment
        if not scenario.wait:
            raise ClusterError(why, "nothing was sent; --wait waits until it stands still")
        if clock.monotonic_ns() > until:
            raise ClusterError(f"{why} (waited {WAIT_NS // 1_000_000_000} s)", "nothing was sent")
        if why != said:
            say(f"waiting: {why}")
            said = why
        await clock.sleep(SETTLE_POLL_S)
        deployment = await _deployment(api, namespace, scenario.deployment)


async def _answers(url: str, ask: address.Prober) -> None:
    answered, detail = await ask(url)
    if answered:
        return
    raise ClusterError(f"--url: nothing answers at {url}: {detail}", "nothing was sent; is the address reachable from here?")


def _rollout_timeout(deployment: Mapping[str, Any]) -> int:
    spec = deployment.get("spec") or {}
    deadline = spec.get("progressDeadlineSeconds", DEFAULT_DEADLINE_S)
    grace = ((spec.get("template") or {}).get("spec") or {}).get("terminationGracePeriodSeconds", DEFAULT_GRACE_S)
    return (min(int(deadline), 86_400) + int(grace) + 60) * 1_000_000_000
