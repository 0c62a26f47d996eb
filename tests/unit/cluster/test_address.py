"""Which Service, which port, which URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from loadtest.cluster import address
from loadtest.errors import ApiError, ClusterError, UsageError

if TYPE_CHECKING:
    from tests.unit.cluster.conftest import ScriptedApi

Make = Callable[..., dict[str, Any]]
SERVICES = "/api/v1/namespaces/shop/services"
PODS = "/api/v1/namespaces/shop/pods"
NODES = "/api/v1/nodes"


def a_node(*addresses: tuple[str, str]) -> dict[str, Any]:
    return {"status": {"addresses": [{"type": kind, "address": value} for kind, value in addresses]}}


class Prober:
    """Answers for some URLs, and remembers all."""

    def __init__(self, *good: str) -> None:
        self.good = good
        self.asked: list[str] = []

    async def __call__(self, url: str) -> tuple[bool, str]:
        self.asked.append(url)
        return (True, "answered with status 200") if url.startswith(self.good or ("\0",)) else (False, "connection refused")


def test_a_service_matches_when_its_whole_selector_is_in_the_template(deployment: Make, service: Make) -> None:
    services = [
        service("all", selector={"app": "web"}),
        service("more", selector={"app": "web", "tier": "front"}),
        service("other", selector={"app": "web", "tier": "back"}),
        service("none", selector={}),
        service("out", type="ExternalName"),
        service("headless", clusterIP="None"),
    ]

    assert [one["metadata"]["name"] for one in address.matching_services(services, deployment())] == ["all", "more"]
    assert address.matching_services(services[-1:], deployment()) == services[-1:]


def test_no_service_is_a_wrong_use_with_the_way_out(deployment: Make) -> None:
    with pytest.raises(UsageError, match="no Service selects the pods of deployment/web") as caught:
        address.choose_service([], deployment())
    assert "--url" in caught.value.hint
    assert "--service" in caught.value.hint


def test_several_services_are_listed(deployment: Make, service: Make) -> None:
    with pytest.raises(UsageError, match=r"several Services .*: a, b$") as caught:
        address.choose_service([service("b"), service("a")], deployment())
    assert caught.value.hint == "choose with --service"


def test_a_named_service_is_taken_even_if_its_selector_is_another(deployment: Make, service: Make) -> None:
    wanted = service("b", selector={"app": "mesh"})

    assert address.choose_service([service("a"), wanted], deployment(), "b") is wanted
    with pytest.raises(UsageError, match="no service 'c'"):
        address.choose_service([service("a"), wanted], deployment(), "c")


def test_several_ports_are_listed_and_one_is_chosen_by_name_or_number(service: Make) -> None:
    two = service(ports=[{"port": 80, "name": "http"}, {"port": 9090, "name": "metrics"}, {"port": 53, "protocol": "UDP"}])

    with pytest.raises(UsageError, match=r"several ports: 80 \(http\), 9090 \(metrics\)") as caught:
        address.choose_port(two)
    assert caught.value.hint == "choose with --port"
    assert address.choose_port(two, "metrics")["port"] == 9090
    assert address.choose_port(two, "80")["name"] == "http"
    with pytest.raises(UsageError, match="no TCP port '53'"):
        address.choose_port(two, "53")


def test_kinds_of_address_come_in_the_order_of_the_contract(service: Make) -> None:
    balanced = service(clusterIPs=["10.96.0.7", "fd00::7"], ports=[{"port": 80, "nodePort": 30080}])
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"hostname": "lb.example.test"}]}}

    groups = address.candidates(
        balanced, address.choose_port(balanced), nodes=["172.18.0.2"], server="https://127.0.0.1:6443", path="/a?b"
    )

    assert [[(one.path_from, one.url) for one in group] for group in groups] == [
        [("load-balancer", "http://203.0.113.9/a?b"), ("load-balancer", "http://lb.example.test/a?b")],
        [("node-port", "http://172.18.0.2:30080/a?b")],
        [("loopback-node-port", "http://127.0.0.1:30080/a?b")],
        [("cluster-ip", "http://10.96.0.7/a?b"), ("cluster-ip", "http://[fd00::7]/a?b")],
    ]


def test_loopback_is_tried_only_where_the_api_server_is_on_this_machine(service: Make) -> None:
    one = service(ports=[{"port": 80, "nodePort": 30080}])
    groups = address.candidates(one, address.choose_port(one), nodes=[], server="https://10.0.0.1:6443")

    assert [group[0].path_from for group in groups] == ["cluster-ip"]


@pytest.mark.parametrize(
    ("port", "url"),
    [
        ({"port": 443}, "https://10.96.0.7/"),
        ({"port": 8443, "name": "https"}, "https://10.96.0.7:8443/"),
        ({"port": 8443, "appProtocol": "HTTPS"}, "https://10.96.0.7:8443/"),
        ({"port": 443, "appProtocol": "http"}, "http://10.96.0.7:443/"),
        ({"port": 8080}, "http://10.96.0.7:8080/"),
    ],
)
def test_https_is_told_by_protocol_name_or_number(service: Make, port: dict[str, Any], url: str) -> None:
    assert address.candidates(service(), port, nodes=[], server="")[0][0].url == url


def test_nodes_that_run_the_pods_come_first_and_stand_in_for_nodes_that_may_not_be_listed(pod: Make) -> None:
    nodes = [
        a_node(("InternalIP", "10.0.0.1"), ("Hostname", "n1")),
        a_node(("ExternalIP", "198.51.100.2"), ("InternalIP", "10.0.0.2")),
    ]
    pods = [pod("a", host="10.0.0.2"), pod("b", host="10.0.0.2"), pod("c")]

    assert address.node_addresses(nodes, pods) == ["10.0.0.2", "10.0.0.1", "198.51.100.2"]
    assert address.node_addresses([], pods) == ["10.0.0.2"]


def serve(api: ScriptedApi, *services: dict[str, Any], pods: list[dict[str, Any]] | None = None) -> None:
    api.answers[("GET", SERVICES)] = {"items": list(services)}
    api.answers[("GET", PODS)] = {"items": pods or []}


async def test_the_first_kind_that_answers_is_taken_and_all_tried_are_told(
    api: ScriptedApi, deployment: Make, service: Make, pod: Make
) -> None:
    serve(
        api,
        service(ports=[{"port": 80, "nodePort": 30080, "name": "http"}], sessionAffinity="ClientIP"),
        pods=[pod("a", host="10.0.0.2"), pod("b", host="10.0.0.3")],
    )
    api.answers[("GET", NODES)] = ApiError("forbidden", status=403)
    prober = Prober("http://10.0.0.3", "http://10.96.0.7")

    found = await address.find(api, deployment(), prober=prober)

    assert (found.url, found.path_from, found.service, found.port) == ("http://10.0.0.3:30080/", "node-port", "web", "http")
    assert found.session_affinity
    assert [(one.url, one.answered) for one in found.tried] == [
        ("http://10.0.0.2:30080/", False),
        ("http://10.0.0.3:30080/", True),
    ]


async def test_nodes_are_not_asked_for_when_there_is_no_node_port(api: ScriptedApi, deployment: Make, service: Make) -> None:
    serve(api, service())
    found = await address.find(api, deployment(), prober=Prober("http://10.96.0.7"))

    assert found.path_from == "cluster-ip"
    assert [path for _, path, _ in api.asked] == [SERVICES]


async def test_when_nothing_answers_all_that_was_tried_is_in_one_line(api: ScriptedApi, deployment: Make, service: Make) -> None:
    serve(api, service())
    with pytest.raises(ClusterError, match=r"http://10.96.0.7/ \(connection refused\)") as caught:
        await address.find(api, deployment(), prober=Prober())
    assert "--url" in caught.value.hint
    assert "--from cluster" in caught.value.hint


async def test_on_kind_the_hint_names_the_port_to_map(api: ScriptedApi, deployment: Make, service: Make) -> None:
    api.context = "kind-dev"
    serve(api, service(ports=[{"port": 80, "nodePort": 30080}]))
    with pytest.raises(ClusterError) as caught:
        await address.find(api, deployment(), prober=Prober())
    assert "extraPortMappings for 30080" in caught.value.hint


async def test_a_url_from_the_flag_wins_and_is_not_tried(api: ScriptedApi, deployment: Make, service: Make) -> None:
    serve(api, service(sessionAffinity="ClientIP"))
    prober = Prober()
    found = await address.find(api, deployment(), url="https://shop.example.test/", prober=prober)

    assert (found.url, found.path_from, found.service, found.session_affinity) == (
        "https://shop.example.test/",
        "flag",
        "web",
        True,
    )
    assert prober.asked == []


async def test_a_url_from_the_flag_needs_no_service(api: ScriptedApi, deployment: Make, service: Make) -> None:
    serve(api, service("a"), service("b"))
    found = await address.find(api, deployment(), url="http://x/")

    assert (found.service, found.port) == ("", "")
