"""From a kubeconfig to answers, and every wrong turn on the way as one line."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.cluster import access, trigger
from loadtest.cluster import api as asking
from loadtest.cluster.api import LOST, SILENT, UNREACHABLE
from loadtest.cluster.client import Api
from loadtest.cluster.kubeconfig import connect
from loadtest.errors import ApiError, ClusterError, LoadtestError, UsageError
from loadtest.model import Resource

if TYPE_CHECKING:
    from tests.sandbox.cluster.conftest import FakeServer

TOKEN = "a-token-that-nobody-may-see"
Write = Callable[..., Path]


def with_cluster(cluster: str) -> str:
    """A kubeconfig in YAML whose cluster is this, and whose user has the token."""
    return (
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
        f"users: [{{name: u, user: {{token: {TOKEN}}}}}]\n"
        "current-context: x\n"
    )


def assert_one_line(error: LoadtestError) -> None:
    assert "\n" not in error.message + error.hint
    assert TOKEN not in error.message + error.hint
    assert error.message


async def test_the_context_says_where_and_who(server: FakeServer, api: Api) -> None:
    assert (api.context, api.namespace, api.server) == ("here", "shop", server.url)
    assert await asking.server_version(api) == "v1.99.0"
    assert server.requests[-1].headers["Authorization"] == f"Bearer {TOKEN}"
    assert server.requests[-1].headers["User-Agent"] == "rollout-loadtest"


async def test_namespace_is_default_where_the_context_has_none(server: FakeServer, kubeconfig: Write, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url, namespace="")
    async with await connect(str(path)) as api:
        assert api.namespace == "default"


async def test_two_files_are_merged_as_kubectl_does(server: FakeServer, kubeconfig: Write, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("apiVersion: v1\nkind: Config\ncontexts: []\n")
    path = kubeconfig(tmp_path / "config", server.url)
    async with await connect(f"{tmp_path / 'absent'}:{empty}:{path}", "here") as api:
        assert await asking.server_version(api) == "v1.99.0"


async def test_a_missing_file_is_a_wrong_flag(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no kubeconfig at .*/absent") as caught:
        await connect(str(tmp_path / "absent"))
    assert_one_line(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "hello",
        "- a\n- b\n",
        "{unclosed: [",
        "a: b: c",
        "\x00\x01",
        "contexts: 7\n",
        "contexts: [1, 2]\ncurrent-context: x\n",
        "contexts: [{name: x}]\ncurrent-context: x\n",
        "contexts: [{name: x, context: {cluster: gone}}]\ncurrent-context: x\n",
        "contexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c}]\ncurrent-context: x\n",
        "contexts: [{context: {}}]\n",
        with_cluster("server: 'https://x', certificate-authority: /no/such"),
        with_cluster("server: 'https://x', certificate-authority-data: AAAA"),
        with_cluster("server: 'https://x', certificate-authority-data: '@'"),
        with_cluster("server: 'https://x'").replace("name: u", "nom: u"),
    ],
)
async def test_garbage_is_a_wrong_flag_and_none_of_it_is_shown(tmp_path: Path, content: str) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(UsageError) as caught:
        await connect(str(tmp_path / "config"))
    assert_one_line(caught.value)


async def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read") as caught:
        await connect(str(tmp_path))
    assert_one_line(caught.value)


async def test_an_unknown_context_is_a_wrong_flag_and_the_known_ones_are_named(kubeconfig: Write, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    with pytest.raises(UsageError, match="no context 'there'") as caught:
        await connect(str(path), "there")
    assert caught.value.hint == "known: here"


async def test_a_server_that_is_not_there_is_trouble_of_the_cluster(kubeconfig: Write, tmp_path: Path) -> None:
    async with await connect(str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1"))) as api:
        with pytest.raises(ApiError, match="cannot reach the API server") as caught:
            await asking.server_version(api)
    assert caught.value.exit_code == 4
    assert caught.value.reason == UNREACHABLE
    assert_one_line(caught.value)


async def test_a_name_that_nobody_knows_is_trouble_of_the_cluster(kubeconfig: Write, tmp_path: Path) -> None:
    async with await connect(str(kubeconfig(tmp_path / "config", "http://no-such-host.invalid:1"))) as api:
        with pytest.raises(ApiError, match="name is not known") as caught:
            await asking.server_version(api)
    assert_one_line(caught.value)


async def test_https_to_a_server_without_it_is_said(server: FakeServer, kubeconfig: Write, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url.replace("http:", "https:"))
    async with await connect(str(path)) as api:
        with pytest.raises(ApiError, match="no TLS connection") as caught:
            await asking.server_version(api)
    assert_one_line(caught.value)


async def test_credentials_that_are_not_accepted_are_said_without_showing_them(server: FakeServer, api: Api) -> None:
    server.tokens.clear()
    with pytest.raises(ApiError, match="does not accept the credentials of context 'here'") as caught:
        await asking.server_version(api)
    assert_one_line(caught.value)


async def test_a_refusal_passes_on_the_servers_sentence_without_secrets(server: FakeServer, api: Api) -> None:
    server.refuse["/version"] = 403
    with pytest.raises(ApiError, match=r"/version is forbidden: token=\*\*\*") as caught:
        await asking.server_version(api)
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")


async def test_an_answer_that_does_not_come_is_silence(server: FakeServer, api: Api) -> None:
    server.objects["/x"] = {}
    server.frozen = True
    query = {"watch": "1", "resourceVersion": "100", "timeoutSeconds": "1"}
    with pytest.raises(ApiError) as caught:
        await api.request("GET", "/x", query=query, timeout_s=0.1)
    assert caught.value.reason == SILENT


async def test_a_stream_that_is_cut_is_lost(server: FakeServer, api: Api) -> None:
    server.objects["/x"] = {}
    query = {"watch": "1", "resourceVersion": "100", "timeoutSeconds": "9"}
    async with api.stream("/x", query=query) as lines:
        server.cut(half_an_event=True)
        with pytest.raises(ApiError) as caught:
            await anext(lines)
    assert caught.value.reason == LOST


async def test_a_server_behind_user_information_is_shown_without_it(kubeconfig: Write, tmp_path: Path) -> None:
    async with await connect(str(kubeconfig(tmp_path / "config", "http://me:hush@127.0.0.1:1"))) as api:
        assert api.server == "http://127.0.0.1:1"


async def test_an_exec_plugin_gives_the_token_and_is_asked_again_when_that_runs_out(
    server: FakeServer, kubeconfig: Write, tmp_path: Path
) -> None:
    counter = tmp_path / "count"
    script = f"""
import json, pathlib
path = pathlib.Path({str(counter)!r})
number = len(path.read_text()) if path.exists() else 0
path.write_text("x" * (number + 1))
status = {{"token": "token-" + str(number)}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", script]}
    server.tokens = {"token-0"}
    async with await connect(str(kubeconfig(tmp_path / "config", server.url, user={"exec": plugin}))) as api:
        assert await asking.server_version(api) == "v1.99.0"
        server.tokens = {"token-1"}
        assert await asking.server_version(api) == "v1.99.0"


@pytest.mark.parametrize("command", ["/no/such/plugin", "false"])
async def test_an_exec_plugin_that_fails_is_trouble_of_the_cluster(
    kubeconfig: Write, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user={"exec": plugin})
    with pytest.raises(ClusterError, match=r"credential plugin .* gave no credentials") as caught:
        await connect(str(path))
    assert_one_line(caught.value)
    assert capsys.readouterr() == ("", "")
    assert logging.getLogger("kubernetes").handlers


async def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    server: FakeServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert await asking.server_version(api) == "v1.99.0"


async def test_a_watch_does_not_keep_other_requests_waiting(server: FakeServer, api: Api) -> None:
    """More streams than the library's own pool has connections."""
    server.objects["/x"] = {}
    query = {"watch": "1", "resourceVersion": "100", "timeoutSeconds": "99"}
    streams = [api.stream("/x", query=query) for _ in range(120)]
    for stream in streams:
        await stream.__aenter__()
    async with asyncio.timeout(5):
        assert await asking.server_version(api) == "v1.99.0"
    for stream in streams:
        await stream.__aexit__(None, None, None)


async def test_a_restart_is_sent_as_a_strategic_merge_patch(server: FakeServer, api: Api) -> None:
    server.put("/apis/apps/v1/namespaces/shop/deployments", "web", metadata={"namespace": "shop", "generation": 4})
    deployment = await asking.get(api, Resource.DEPLOYMENTS, "shop", "web")
    after = await trigger.send(api, trigger.restart(deployment, wall_ns=1_700_000_000_000_000_000))

    assert after["metadata"]["generation"] == 5
    (patch,) = server.patches
    assert patch[:2] == ("/apis/apps/v1/namespaces/shop/deployments/web", "application/strategic-merge-patch+json")
    assert patch[2]["spec"]["template"]["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/restartedAt": "2023-11-14T22:13:20Z"
    }


async def test_rights_are_asked_of_the_server_in_the_namespace(server: FakeServer, api: Api) -> None:
    server.denied = {"list events", "watch events", "list nodes"}

    assert await access.verify(api, "shop") == ("list events", "watch events", "list nodes")
    asked = {(one["verb"], one["group"], one["resource"], one.get("subresource"), one.get("namespace")) for one in server.reviews}
    assert ("patch", "apps", "deployments", None, "shop") in asked
    assert ("get", "", "pods", "log", "shop") in asked
    assert ("list", "", "nodes", None, None) in asked
