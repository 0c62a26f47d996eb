"""The rights a run needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from loadtest.cluster import access
from loadtest.errors import ApiError, ClusterError

if TYPE_CHECKING:
    from tests.unit.cluster.conftest import ScriptedApi

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def refuse(api: ScriptedApi, *names: str) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        wanted = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": f"{wanted['verb']} {wanted['resource']}" not in names}}

    api.answers[("POST", REVIEWS)] = answer


async def test_all_missing_required_rights_are_in_one_line(api: ScriptedApi) -> None:
    refuse(api, "watch pods", "patch deployments", "list events")

    with pytest.raises(ClusterError, match="in namespace 'shop': watch pods, patch deployments") as caught:
        await access.verify(api, "shop")
    assert "events" not in caught.value.message
    assert "loadtest access" in caught.value.hint
    assert caught.value.exit_code == 4


async def test_the_right_to_patch_is_not_asked_for_when_somebody_else_starts_the_rollout(api: ScriptedApi) -> None:
    refuse(api, "patch deployments")

    assert await access.verify(api, "shop", patches=False) == ()


async def test_missing_optional_rights_are_given_back(api: ScriptedApi) -> None:
    refuse(api, "list events", "watch events", "get pods")

    assert (await access.missing(api, "shop"))[1] == ("list events", "watch events", "get pods/log")


async def test_a_cluster_that_cannot_be_asked_does_not_stop_a_run(api: ScriptedApi) -> None:
    assert await access.verify(api, "shop") == ()


async def test_a_cluster_that_does_not_answer_stops_it(api: ScriptedApi) -> None:
    api.answers[("POST", REVIEWS)] = ApiError("gone")

    with pytest.raises(ApiError, match="gone"):
        await access.verify(api, "shop")


def test_the_role_has_every_right_and_nothing_more() -> None:
    role, beyond = yaml.safe_load_all(access.role_yaml("shop", deployment="web"))

    assert (role["kind"], role["metadata"]) == ("Role", {"name": "rollout-loadtest", "namespace": "shop"})
    granted = {f"{verb} {name}" for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert granted == {name for right in access.RIGHTS if not right.cluster_wide for name in right.names}
    assert [rule for rule in role["rules"] if "patch" in rule["verbs"]] == [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"], "resourceNames": ["web"]}
    ]
    assert (beyond["kind"], beyond["rules"]) == ("ClusterRole", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])


def test_the_least_role_leaves_out_what_is_optional() -> None:
    (role,) = yaml.safe_load_all(access.role_yaml("shop", patches=False, optional=False))

    assert "nodes" not in str(role)
    assert "events" not in str(role)
    assert "patch" not in str(role)
