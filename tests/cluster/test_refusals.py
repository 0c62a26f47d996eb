"""What must not begin: one clear line each, exit 2 or 4, and nothing touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import tool
from tests.cluster.cluster import Cluster
from tests.cluster.manifests import service, web

APP = ["--on-term", "drain"]


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> str:
    """A namespace with a settled `web` for the tests of this file."""
    name = cluster.create_namespace()
    cluster.deploy(web(args=APP), name)
    return name


def refuse(
    home: str, cluster: Cluster, tmp_path: Path, *flags: str, workload: str = "deployment/web", kubeconfig: Path | None = None
) -> tuple[int, str, str]:
    """Runs the tool, checks that it said one line and one hint and touched nothing. (exit code, line, hint)."""
    before = cluster.get("-n", home, "deployments")
    words = tool.command(kubeconfig or cluster.limited_kubeconfig(home), tmp_path / "run", *flags, workload=workload)
    called = tool.call(*words[3:])
    after = cluster.get("-n", home, "deployments")
    generations = [[one["metadata"]["generation"] for one in found["items"]] for found in (before, after)]
    assert generations[0] == generations[1]
    assert not (tmp_path / "run").exists()
    lines = called.stderr.splitlines()
    assert lines[0].startswith("error: "), called.stderr
    assert len(lines) <= 2, called.stderr
    return called.returncode, lines[0], lines[1] if len(lines) > 1 else ""


def test_a_kubeconfig_that_is_not_there(home: str, cluster: Cluster, tmp_path: Path) -> None:
    code, line, _ = refuse(home, cluster, tmp_path, kubeconfig=tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml" in line


def test_a_kubeconfig_that_is_garbage(home: str, cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "garbage.yaml"
    file.write_text("{{{")
    code, line, _ = refuse(home, cluster, tmp_path, kubeconfig=file)
    assert code == 2
    assert "garbage.yaml" in line


def test_a_token_that_is_wrong(home: str, cluster: Cluster, tmp_path: Path) -> None:
    good = cluster.limited_kubeconfig(home)
    document = json.loads(good.read_text()) if good.read_text().startswith("{") else None
    file = tmp_path / "wrong.yaml"
    if document is None:
        import yaml

        document = yaml.safe_load(good.read_text())
    document["users"][0]["user"]["token"] = "not-a-token"
    file.write_text(json.dumps(document))
    code, line, _ = refuse(home, cluster, tmp_path, kubeconfig=file)
    assert code == 4
    assert "not-a-token" not in line


def test_no_such_deployment(home: str, cluster: Cluster, tmp_path: Path) -> None:
    code, line, _ = refuse(home, cluster, tmp_path, workload="deployment/webb")
    assert code == 2
    assert "deployment/webb" in line


def test_no_service(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=APP, replicas=1), namespace)
    cluster.kubectl("-n", namespace, "delete", "service", "web")
    code, _, hint = refuse(namespace, cluster, tmp_path)
    assert code == 2
    assert "--url" in hint or "--service" in hint


def test_two_services(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=APP, replicas=1), namespace)
    other = service("web")
    other["metadata"]["name"] = "web-two"
    cluster.apply(json.dumps(other), namespace)
    code, line, hint = refuse(namespace, cluster, tmp_path)
    assert code == 2
    assert "web-two" in line
    assert "--service" in hint


def test_missing_rights(home: str, cluster: Cluster, tmp_path: Path) -> None:
    elsewhere = cluster.limited_kubeconfig("default")
    code, line, hint = refuse(home, cluster, tmp_path, "-n", home, kubeconfig=elsewhere)
    assert code == 4
    assert "patch deployments" in line
    assert "loadtest access" in hint


def test_an_address_that_nobody_listens_on(home: str, cluster: Cluster, tmp_path: Path) -> None:
    code, line, _ = refuse(home, cluster, tmp_path, "--url", "http://127.0.0.1:9/")
    assert code == 4
    assert "127.0.0.1:9" in line


def test_a_rollout_under_way(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=APP, replicas=1, prestop_sleep=5), namespace)
    cluster.kubectl("-n", namespace, "set", "image", "deployment/web", "app=localhost/loadtest-demo:never")
    code, line, hint = refuse(namespace, cluster, tmp_path)
    assert code == 4
    assert "under way" in line
    assert "--wait" in hint


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--qps", "0"), "--qps"),
        (("--qps", "many"), "--qps"),
        (("-c", "0"), "-c"),
        (("--timeout", "5"), "--timeout"),
        (("--lanes", "old"), "--lanes"),
        (("--url", "ftp://x/"), "--url"),
        (("--qps", "5000"), "source ports"),
        (("--no-such-flag",), "--no-such-flag"),
        (("--set-image", "localhost/loadtest-demo:1"), "localhost/loadtest-demo:1"),
    ],
)
def test_a_flag_out_of_range(home: str, cluster: Cluster, tmp_path: Path, flags: tuple[str, ...], named: str) -> None:
    code, line, _ = refuse(home, cluster, tmp_path, *flags)
    assert code == 2
    assert named in line


def test_a_dry_run_says_what_it_would_do_and_does_nothing(home: str, cluster: Cluster, tmp_path: Path) -> None:
    words = tool.command(cluster.limited_kubeconfig(home), tmp_path / "run", "--dry-run")
    called = tool.call(*words[3:])
    assert called.returncode == 0, called.stderr
    for word in ("address", "rights", "PATCH", "baseline", "requests"):
        assert word in called.stdout
    assert not (tmp_path / "run").exists()
    assert cluster.get("-n", home, "deployment", "web")["metadata"]["generation"] == 1


def test_a_cluster_ip_is_used_where_nothing_else_answers(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.deploy(web(args=APP, replicas=1), namespace)
    cluster.kubectl("-n", namespace, "patch", "service", "web", "-p", '{"spec": {"type": "ClusterIP"}}')
    words = tool.command(cluster.limited_kubeconfig(namespace), tmp_path / "run", "--dry-run")
    called = tool.call(*words[3:])
    assert called.returncode == 0, called.stderr
    assert "(cluster-ip): answered with status 200" in called.stdout


def test_a_cluster_ip_at_which_somebody_else_answers_with_an_error_is_not(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.deploy(web(args=[*APP, "--status", "404"], replicas=1), namespace)
    cluster.kubectl("-n", namespace, "patch", "service", "web", "-p", '{"spec": {"type": "ClusterIP"}}')
    code, line, _ = refuse(namespace, cluster, tmp_path)
    assert code == 4
    assert "404" in line
