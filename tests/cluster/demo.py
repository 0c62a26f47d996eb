"""The main job on the test cluster, for somebody who sees the tool for the first time.

Brings a cluster up if none is, rolls an app that exits at once on SIGTERM, and lets the tool say what that cost. What it
started it takes away; the report stays.
"""

from __future__ import annotations

import subprocess
import sys

from tests.cluster.cluster import Cluster
from tests.cluster.manifests import web

WORDS = """
The app in this rollout has no preStop wait and no handler for SIGTERM. The run below loads its Service while it rolls.
"""


def demo() -> int:
    """Returns 0 when the run said what is to be expected: fail."""
    if Cluster.usable():
        return roll(Cluster.attach())
    with Cluster.up(lambda line: print(line, file=sys.stderr, flush=True)) as cluster:
        return roll(cluster)


def roll(cluster: Cluster) -> int:
    """One run of the tool in a namespace of its own."""
    with cluster.namespace() as namespace:
        print("deploying the app", file=sys.stderr, flush=True)
        cluster.deploy(web(args=["--delay", "500ms", "--on-term", "default"], share_process_namespace=True), namespace)
        words = ["run", "deployment/web", "--qps", "32", "-c", "16", "--baseline", "5s", "--yes"]
        print(f"{WORDS}\n$ loadtest {' '.join(words)}", file=sys.stderr, flush=True)
        kubeconfig = ("--kubeconfig", str(cluster.limited_kubeconfig(namespace)))
        code = subprocess.run([sys.executable, "-m", "loadtest", *words, *kubeconfig], check=False).returncode
    if code == 1:
        print("\nThe tool ended with 1, as a release that loses requests must. Open the report named above.", file=sys.stderr)
        return 0
    print(f"\nThe tool ended with {code}; 1 was expected: this app loses requests.", file=sys.stderr)
    return 1
