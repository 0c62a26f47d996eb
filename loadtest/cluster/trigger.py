"""What starts a rollout: decided as a value (pure), then sent.

`restart` and `set_image` do what `kubectl rollout restart` and `kubectl set image` do; `external` sends nothing. Input: the
Deployment as the API server gave it, untrimmed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from loadtest.cluster import paths, rollout
from loadtest.cluster.api import JSON, STRATEGIC_MERGE, ClusterApi
from loadtest.errors import ClusterError, UsageError
from loadtest.model import Resource

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_MANAGER = "rollout-loadtest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What will be sent to the API server, and how a person takes it back.

    Attributes:
        name: the trigger: "restart", "set_image", "external".
        detail: in words, such as "web: shop:1.4 to shop:1.5".
        path: of the object; "" when nothing is sent.
        body: of the PATCH.
        content_type: of the body.
        undo_command: for a shell; "" when there is nothing to undo.
    """

    name: str
    detail: str
    path: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    content_type: str = JSON
    undo_command: str = ""


def restart(deployment: Mapping[str, Any], *, wall_ns: int) -> Change:
    """New pods of the same template. `wall_ns`: UTC now, which becomes the annotation that makes the template differ.

    Source: kubectl `pkg/polymorphichelpers/objectrestarter.go`: an annotation of the pod template, RFC 3339 in seconds.
    """
    stamp = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: stamp}}}}}
    return _patch("restart", f"deployment/{_name(deployment)} at {stamp}", deployment, body)


def set_image(deployment: Mapping[str, Any], spec: str) -> Change:
    """Another image. `spec`: `CONTAINER=IMAGE`, or `IMAGE` where the pod has one container.

    Raises:
        UsageError: no such container, several to choose from, or the image is already there (nothing would roll).
    """
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    by_kind = {kind: {str(c.get("name")): c for c in pod.get(kind) or ()} for kind in ("containers", "initContainers")}
    known = ", ".join([*by_kind["containers"], *by_kind["initContainers"]])
    container, equals, image = spec.partition("=")
    if not equals:
        container, image = "", spec
        if len(by_kind["containers"]) != 1:
            raise UsageError(
                f"deployment/{_name(deployment)} has {len(by_kind['containers'])} containers: say which one gets {image!r}",
                f"write CONTAINER={image}; known: {known}",
            )
        container = next(iter(by_kind["containers"]))
    if not image:
        raise UsageError(f"no image in {spec!r}", "write CONTAINER=IMAGE")
    kind = next((kind for kind, found in by_kind.items() if container in found), "")
    if not kind:
        raise UsageError(f"deployment/{_name(deployment)} has no container {container!r}", f"known: {known}")
    before = str(by_kind[kind][container].get("image", ""))
    if before == image:
        raise UsageError(
            f"container {container!r} of deployment/{_name(deployment)} already runs {image}: nothing would roll",
            "give another image, or use restart",
        )
    body = {"spec": {"template": {"spec": {kind: [{"name": container, "image": image}]}}}}
    return _patch("set_image", f"{container}: {before} to {image}", deployment, body)


def external() -> Change:
    """Somebody else starts it (Helm, Argo CD, a person): nothing is sent."""
    return Change(name="external", detail="started from outside")


def undo_command(deployment: Mapping[str, Any]) -> str:
    """The kubectl line that brings back what a Deployment runs now."""
    namespace = str((deployment.get("metadata") or {}).get("namespace") or "default")
    line = ["kubectl", "rollout", "undo", f"deployment/{_name(deployment)}", "-n", namespace]
    revision = rollout.revision(deployment)
    if revision is not None:
        line.append(f"--to-revision={revision}")
    return shlex.join(line)


async def send(api: ClusterApi, change: Change, *, dry_run: bool = False) -> dict[str, Any]:
    """Sends a change. Returns the Deployment as it is then, untrimmed; {} when there was nothing to send.

    Args:
        api: the API server.
        change: what to send.
        dry_run: the API server checks it (admission included) and changes nothing.

    Raises:
        ApiError: refused, or no answer: then it may have been applied or not.
        ClusterError: taken, but the pod template is as before (a controller that reverts, a second restart in one second).
    """
    if not change.path:
        return {}
    before = await api.request("GET", change.path)
    query = {"fieldManager": _MANAGER} | ({"dryRun": "All"} if dry_run else {})
    after = await api.request("PATCH", change.path, query=query, body=change.body, content_type=change.content_type)
    if _generation(after) == _generation(before):
        # metadata.generation grows with every change of the spec: "Kubernetes API Conventions", metadata.
        raise ClusterError(
            "the API server took the change, but the Deployment is as before: nothing will roll",
            "is an admission webhook or another restart within this second the reason?",
        )
    return after


def _patch(name: str, detail: str, deployment: Mapping[str, Any], body: Mapping[str, Any]) -> Change:
    namespace = str((deployment.get("metadata") or {}).get("namespace") or "default")
    return Change(
        name=name,
        detail=detail,
        path=paths.single(Resource.DEPLOYMENTS, namespace, _name(deployment)),
        body=body,
        content_type=STRATEGIC_MERGE,
        undo_command=undo_command(deployment),
    )


def _name(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


def _generation(obj: Mapping[str, Any]) -> object:
    return (obj.get("metadata") or {}).get("generation")
