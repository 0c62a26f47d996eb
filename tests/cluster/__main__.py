"""The cluster by hand: `python -m tests.cluster build|up|demo|status|kubectl ...|down`."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.cluster import build, control, demo, requirements
from tests.cluster.cluster import Cluster
from tests.cluster.layout import Layout, standard_layout
from tests.cluster.trouble import CannotRunError, ClusterError
from tests.cluster.watchdog import clear


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs into the cache")
    commands.add_parser("up", help="start a cluster and leave it running")
    commands.add_parser("demo", help="the main job on it: a rollout that loses requests, and why")
    commands.add_parser("down", help="take it down, and clear away what a crashed one left")
    commands.add_parser("status", help="say whether one is up, and where")
    passed = commands.add_parser("kubectl", help="kubectl as the cluster's administrator", add_help=False)
    passed.add_argument("words", nargs=argparse.REMAINDER)
    if arguments[:1] == ["kubectl"]:  # argparse would take kubectl's own flags for ours
        chosen = argparse.Namespace(command="kubectl", words=arguments[1:])
    else:
        chosen = parser.parse_args(arguments)
    try:
        return act(chosen)
    except CannotRunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def act(chosen: argparse.Namespace) -> int:
    match chosen.command:
        case "build":
            print(build.binaries(tell).folder)
        case "up":
            started = time.monotonic()
            cluster = Cluster.up(tell)
            limited = cluster.limited_kubeconfig("default")
            cluster.detach()
            tell(f"up after {time.monotonic() - started:.1f} s")
            describe(cluster.layout)
            print(f"limited account      {limited}")
        case "demo":
            return demo.demo()
        case "status":
            state = control.tell_watchdog("status")
            if not state:
                print("no cluster is up")
                return 1
            describe(standard_layout())
            print(f"bound to its owner   {'no' if state == 'detached' else 'yes'}")
        case "kubectl":
            cluster = Cluster.attach()
            kubectl = str(cluster.binaries.kubectl)
            os.execv(kubectl, [kubectl, f"--kubeconfig={cluster.admin_kubeconfig}", *chosen.words])
        case "down":
            requirements.check()
            if not control.take_down():
                clear(standard_layout())
                print("no cluster was up")
    return 0


def describe(layout: Layout) -> None:
    cluster = Cluster.attach()
    print(f"administrator        {layout.kubeconfig('admin')}")
    print(f"NodePort addresses   {' '.join(cluster.node_addresses)}")
    print(f"logs                 {layout.logs}")


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
