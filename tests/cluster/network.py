"""The commands that make the cluster's network, run by the keeper in its own network namespace.

That namespace is a switch (`bridge0`) with the control plane on it; each node is a namespace with one port on it, the
host hangs on it by a veth pair. All are in one subnet, so the host routes and forwards nothing. A node's default route
leads to a second bridge without a port: a packet for any other address ends there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.cluster.layout import CONTROL_ADDRESS, NODES, Node

NODE_SETTINGS = ("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet")


def in_node(node: Node, *argv: str) -> list[str]:
    """The command, in the node's network namespace.

    By nsenter, because `ip netns exec` mounts a fresh /sys, where the kubelet finds no cgroups.
    """
    return ["nsenter", f"--net=/run/netns/{node.name}", *argv]


def commands() -> Iterator[list[str]]:
    """All of it, in order. Needs the host's link, which arrives as `uplink`."""
    yield ["ip", "link", "set", "lo", "up"]
    yield ["ip", "link", "add", "bridge0", "type", "bridge"]
    yield ["ip", "address", "add", f"{CONTROL_ADDRESS}/24", "dev", "bridge0"]
    yield ["ip", "link", "set", "bridge0", "up"]
    yield ["ip", "link", "set", "uplink", "master", "bridge0", "up"]
    for node in NODES:
        yield from node_commands(node)


def node_commands(node: Node) -> Iterator[list[str]]:
    """One node: its port, its default route to nowhere, the way to the other nodes' pods."""
    inside = ["ip", "-n", node.name]
    yield ["ip", "netns", "add", node.name]
    yield ["ip", "link", "add", node.name, "type", "veth", "peer", "name", "eth0", "netns", node.name]
    yield ["ip", "link", "set", node.name, "master", "bridge0", "up"]
    yield [*inside, "link", "set", "lo", "up"]
    yield [*inside, "address", "add", f"{node.address}/24", "dev", "eth0"]
    yield [*inside, "link", "set", "eth0", "up"]
    # A Service's address needs a route before the packet filter may translate it.
    yield [*inside, "link", "add", "nowhere", "type", "bridge"]
    yield [*inside, "link", "set", "nowhere", "up"]
    yield [*inside, "route", "add", "default", "dev", "nowhere", "src", node.address]
    for other in NODES:
        if other is not node:
            yield [*inside, "route", "add", other.pods, "via", other.address]
    for setting in NODE_SETTINGS:
        yield in_node(node, "sh", "-c", f"echo 1 > /proc/sys/{setting}")
