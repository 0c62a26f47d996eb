"""Where load goes: from a Deployment to its Service to a URL that answers from here.

The order is `contract.md`'s: load balancer, NodePort on each node, 127.0.0.1:nodePort where the API server is on this
machine too (kind, Docker Desktop), ClusterIP. What to try is decided first (pure), then tried, one kind after the other, all
addresses of a kind at once. Nothing is ever port-forwarded: kubectl's port-forward stays with one pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.cluster import paths, rollout
from loadtest.cluster.api import ClusterApi, is_loopback, list_all
from loadtest.cluster.probe import probe
from loadtest.errors import ApiError, ClusterError, UsageError
from loadtest.model import Resource

LOAD_BALANCER, NODE_PORT, LOOPBACK, CLUSTER_IP = "load-balancer", "node-port", "loopback-node-port", "cluster-ip"
MOST_NODE_ADDRESSES = 12
"""A cluster of a thousand nodes is not probed whole; nodes that run the pods come first."""

Object = Mapping[str, Any]
Prober = Callable[[str], Awaitable[tuple[bool, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A URL to try. `path_from`: as in `model.Target`."""

    url: str
    path_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A URL that was tried. `detail`: what happened, in a few words."""

    url: str
    path_from: str
    answered: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where load goes.

    Attributes:
        url: absolute.
        path_from: as in `model.Target`.
        service: its name; "" with a URL from the flag when it is not clear which Service leads here.
        port: the Service port's name or number; "" likewise.
        session_affinity: the Service sends each client address to one pod.
        tried: everything that was tried, in order, the one chosen included.
    """

    url: str
    path_from: str
    service: str = ""
    port: str = ""
    session_affinity: bool = False
    tried: tuple[Tried, ...] = ()


async def find(
    api: ClusterApi,
    deployment: Object,
    *,
    url: str = "",
    service: str = "",
    port: str = "",
    path: str = "/",
    prober: Prober = probe,
    careful_prober: Prober | None = None,
) -> Address:
    """The address of a Deployment.

    Args:
        api: the API server.
        deployment: the Deployment.
        url: given by the user: it wins, and is not tried.
        service: the Service's name, where several match.
        port: its port, by name or number, where it has several.
        path: of the URL, with its query.
        prober: tries a URL.
        careful_prober: tries the ClusterIP, which outside the cluster may be somebody else's address; None: `prober`.

    Raises:
        UsageError: no Service, or several Services or ports; the list is in the message.
        ClusterError: none of its addresses answers.
        ApiError: Services or pods cannot be listed.
    """
    namespace = str((deployment.get("metadata") or {}).get("namespace") or api.namespace)
    services = await list_all(api, Resource.SERVICES, namespace)
    if url:
        return _from_flag(url, services, deployment, service, port)
    chosen = choose_service(services, deployment, service)
    chosen_port = choose_port(chosen, port)
    nodes = await _node_addresses(api, deployment, namespace) if chosen_port.get("nodePort") else []
    tried: list[Tried] = []
    for group in candidates(chosen, chosen_port, nodes=nodes, server=api.server, path=path):
        ask = careful_prober if careful_prober and group[0].path_from == "cluster-ip" else prober
        answers = await asyncio.gather(*(ask(candidate.url) for candidate in group))
        for candidate, (answered, detail) in zip(group, answers, strict=True):
            tried.append(Tried(url=candidate.url, path_from=candidate.path_from, answered=answered, detail=detail))
        for attempt in tried:
            if attempt.answered:
                return Address(
                    url=attempt.url,
                    path_from=attempt.path_from,
                    service=_name(chosen),
                    port=_port_label(chosen_port),
                    session_affinity=_has_affinity(chosen),
                    tried=tuple(tried),
                )
    raise _unreachable(api, chosen, chosen_port, tried)


def matching_services(services: Iterable[Object], deployment: Object) -> list[Object]:
    """The Services whose selector matches the pods of a Deployment; headless ones only where there is no other.

    Source: "Service": a Service without selector has no pods of its own; ExternalName and headless ones have no address.
    """
    template = ((deployment.get("spec") or {}).get("template") or {}).get("metadata") or {}
    labels = template.get("labels") or {}
    found = []
    for service in services:
        spec = service.get("spec") or {}
        selector = spec.get("selector") or {}
        if selector and spec.get("type") != "ExternalName" and selector.items() <= labels.items():
            found.append(service)
    return [one for one in found if (one.get("spec") or {}).get("clusterIP") != "None"] or found


def choose_service(services: Sequence[Object], deployment: Object, wanted: str = "") -> Object:
    """The Service that leads to a Deployment; `wanted`: its name, which then need not match.

    Raises:
        UsageError: none, or several.
    """
    if wanted:
        for service in services:
            if _name(service) == wanted:
                return service
        known = ", ".join(sorted(_name(service) for service in services)) or "none"
        raise UsageError(f"there is no service {wanted!r} in the namespace", f"known: {known}")
    found = matching_services(services, deployment)
    if not found:
        raise UsageError(
            f"no Service selects the pods of deployment/{_name(deployment)}",
            "name one with --service, or give the address with --url",
        )
    if len(found) > 1:
        names = ", ".join(sorted(_name(service) for service in found))
        raise UsageError(f"several Services select the pods of deployment/{_name(deployment)}: {names}", "choose with --service")
    return found[0]


def choose_port(service: Object, wanted: str = "") -> Object:
    """The TCP port of a Service; `wanted`: its name or number.

    Raises:
        UsageError: no such port, none at all, or several.
    """
    ports = [port for port in (service.get("spec") or {}).get("ports") or () if port.get("protocol", "TCP") == "TCP"]
    shown = ", ".join(f"{port.get('port')}" + (f" ({port['name']})" if port.get("name") else "") for port in ports) or "none"
    if wanted:
        for port in ports:
            if wanted in {port.get("name"), str(port.get("port"))}:
                return port  # type: ignore[no-any-return]  # JSON
        raise UsageError(f"service/{_name(service)} has no TCP port {wanted!r}", f"known: {shown}")
    if len(ports) != 1:
        what = f"several ports: {shown}" if ports else "no TCP port"
        raise UsageError(f"service/{_name(service)} has {what}", "choose with --port" if ports else "give the address with --url")
    return ports[0]  # type: ignore[no-any-return]  # JSON


def candidates(service: Object, port: Object, *, nodes: Sequence[str], server: str, path: str = "/") -> list[list[Candidate]]:
    """What to try, in groups from the best kind to the last; empty groups are left out.

    Args:
        service: as chosen.
        port: as chosen.
        nodes: addresses of nodes.
        server: URL of the API server.
        path: of the URL.
    """
    spec, number, node_port = service.get("spec") or {}, int(port.get("port") or 0), port.get("nodePort")
    scheme = "https" if _is_https(port) else "http"

    def group(path_from: str, hosts: Iterable[str], at: object) -> list[Candidate]:
        return [Candidate(url=_url(scheme, host, int(str(at)), path), path_from=path_from) for host in hosts]

    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    balancers = [str(one.get("hostname") or one.get("ip")) for one in ingress if one.get("hostname") or one.get("ip")]
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
    groups = [group(LOAD_BALANCER, balancers, number)]
    if node_port:
        groups.append(group(NODE_PORT, nodes[:MOST_NODE_ADDRESSES], node_port))
        groups.append(group(LOOPBACK, ["127.0.0.1"] if is_loopback(server) else [], node_port))
    groups.append(group(CLUSTER_IP, [str(one) for one in addresses if one and one != "None"], number))
    return [one for one in groups if one]


def node_addresses(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """Addresses of nodes, those that run the pods first: with `externalTrafficPolicy: Local` only they answer.

    Where nodes may not be listed, the pods' own `status.hostIP` are what is left.
    """
    hosts = {str((pod.get("status") or {}).get("hostIP")) for pod in pods if (pod.get("status") or {}).get("hostIP")}
    all_of_them: list[str] = []
    for node in nodes:
        known = (node.get("status") or {}).get("addresses") or ()
        for kind in ("ExternalIP", "InternalIP"):
            all_of_them += [str(one.get("address")) for one in known if one.get("type") == kind]
    first = [one for one in all_of_them if one in hosts]
    return list(dict.fromkeys([*first, *sorted(hosts - set(first)), *all_of_them]))


async def _node_addresses(api: ClusterApi, deployment: Object, namespace: str) -> list[str]:
    pods = await list_all(api, Resource.PODS, namespace, selector=rollout.selector_query(deployment))
    try:
        nodes = (await api.request("GET", paths.NODES)).get("items") or []
    except ApiError as error:
        if error.status not in {403, 404}:
            raise
        nodes = []  # an optional right
    return node_addresses(nodes, pods)


def _from_flag(url: str, services: Sequence[Object], deployment: Object, service: str, port: str) -> Address:
    found = [choose_service(services, deployment, service)] if service else matching_services(services, deployment)
    if len(found) != 1:
        return Address(url=url, path_from="flag")
    label = _port_label(choose_port(found[0], port)) if port else ""
    return Address(url=url, path_from="flag", service=_name(found[0]), port=label, session_affinity=_has_affinity(found[0]))


def _unreachable(api: ClusterApi, service: Object, port: Object, tried: Sequence[Tried]) -> ClusterError:
    node_port = port.get("nodePort")
    if api.context.startswith("kind-") and node_port:
        hint = f"add extraPortMappings for {node_port} to kind's config, give --url, or send from inside with --from cluster"
    else:
        hint = "give the address with --url, or send from inside with --from cluster"
    what = "; ".join(f"{one.url} ({one.detail})" for one in tried) or "it has none"
    return ClusterError(f"no address of service/{_name(service)} answers from here: {what}", hint)


def _is_https(port: Object) -> bool:
    """By the port's appProtocol, its name or its number; Kubernetes itself does not say. Source: "Service", appProtocol."""
    protocol = str(port.get("appProtocol") or "").lower()
    return protocol == "https" if protocol else str(port.get("name") or "").startswith("https") or port.get("port") == 443


def _url(scheme: str, host: str, port: int, path: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    at = "" if port == {"http": 80, "https": 443}[scheme] else f":{port}"
    return f"{scheme}://{shown}{at}{path if path.startswith('/') else '/' + path}"


def _port_label(port: Object) -> str:
    return str(port.get("name") or port.get("port") or "")


def _has_affinity(service: Object) -> bool:
    return (service.get("spec") or {}).get("sessionAffinity") == "ClientIP"


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))
