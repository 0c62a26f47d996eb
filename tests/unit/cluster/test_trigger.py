"""What is sent to start a rollout, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from loadtest.cluster import trigger
from loadtest.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from tests.unit.cluster.conftest import ScriptedApi

Make = Callable[..., dict[str, Any]]
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"
TWO = {"spec": {"containers": [{"name": "web", "image": "shop:1"}, {"name": "proxy", "image": "envoy:1"}]}}


def test_a_restart_writes_kubectls_annotation_and_names_the_revision_to_go_back_to(deployment: Make) -> None:
    change = trigger.restart(deployment(), wall_ns=1_700_000_000_999_999_999)

    assert change.path == PATH
    assert change.content_type == "application/strategic-merge-patch+json"
    annotations = {"kubectl.kubernetes.io/restartedAt": "2023-11-14T22:13:20Z"}
    assert change.body == {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    assert change.undo_command == "kubectl rollout undo deployment/web -n shop --to-revision=7"


def test_a_revision_that_is_not_known_is_left_out_of_the_undo_command(deployment: Make) -> None:
    change = trigger.restart(deployment(meta__annotations={}), wall_ns=0)

    assert change.undo_command == "kubectl rollout undo deployment/web -n shop"


@pytest.mark.parametrize("spec", ["shop:2", "web=shop:2"])
def test_an_image_goes_to_the_only_container_or_to_the_named_one(deployment: Make, spec: str) -> None:
    change = trigger.set_image(deployment(), spec)

    assert change.body == {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "shop:2"}]}}}}
    assert change.detail == "web: shop:1 to shop:2"


def test_an_image_may_go_to_an_init_container(deployment: Make) -> None:
    template = {"spec": {"containers": [{"name": "web"}], "initContainers": [{"name": "migrate", "image": "m:1"}]}}
    change = trigger.set_image(deployment(spec__template=template), "migrate=m:2")

    assert change.body == {"spec": {"template": {"spec": {"initContainers": [{"name": "migrate", "image": "m:2"}]}}}}


def test_an_image_without_a_container_is_refused_where_there_are_two(deployment: Make) -> None:
    with pytest.raises(UsageError, match="has 2 containers") as caught:
        trigger.set_image(deployment(spec__template=TWO), "shop:2")
    assert caught.value.hint == "write CONTAINER=shop:2; known: web, proxy"


def test_an_unknown_container_is_refused_with_the_known_ones(deployment: Make) -> None:
    with pytest.raises(UsageError, match="no container 'api'") as caught:
        trigger.set_image(deployment(spec__template=TWO), "api=shop:2")
    assert caught.value.hint == "known: web, proxy"


@pytest.mark.parametrize("spec", ["shop:1", "web=shop:1", "web=", ""])
def test_an_image_that_would_roll_nothing_is_a_wrong_flag(deployment: Make, spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        trigger.set_image(deployment(), spec)
    assert caught.value.exit_code == 2


async def test_nothing_is_sent_for_a_rollout_from_outside(api: ScriptedApi) -> None:
    assert await trigger.send(api, trigger.external()) == {}
    assert api.asked == []


async def test_a_change_that_changed_nothing_is_an_error(api: ScriptedApi, deployment: Make) -> None:
    api.answers = {("GET", PATH): deployment(), ("PATCH", PATH): deployment()}
    with pytest.raises(ClusterError, match="nothing will roll"):
        await trigger.send(api, trigger.restart(deployment(), wall_ns=0))


async def test_a_dry_run_is_the_servers_own(api: ScriptedApi, deployment: Make) -> None:
    api.answers = {("GET", PATH): deployment(), ("PATCH", PATH): deployment(meta__generation=5)}
    await trigger.send(api, trigger.restart(deployment(), wall_ns=0), dry_run=True)

    assert api.asked[-1][2]["query"] == {"fieldManager": "rollout-loadtest", "dryRun": "All"}
