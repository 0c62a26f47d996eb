"""The rights a run needs, asked of the API server before anything is sent.

The table is the truth for three things: what `verify` asks, what `role_yaml` prints, and what the README lists.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import yaml

from loadtest.cluster import paths
from loadtest.cluster.api import ClusterApi
from loadtest.errors import ApiError, ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One kind of object and what is done to it.

    Attributes:
        resource: as in a Role: `pods/log` for a subresource.
        required: without it there is no run; else something is missing in the report.
        cluster_wide: not in a namespace, so it takes a ClusterRole.
        patches: only needed by triggers that change the Deployment.
    """

    verbs: tuple[str, ...]
    group: str
    resource: str
    why: str
    required: bool = True
    cluster_wide: bool = False
    patches: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """In words, one for each verb: "list events"."""
        return tuple(f"{verb} {self.resource}" for verb in self.verbs)


_LOOK = ("get", "list", "watch")

RIGHTS: tuple[Right, ...] = (
    Right(verbs=_LOOK, group="apps", resource="deployments", why="what is rolled, and how far it is"),
    Right(verbs=_LOOK, group="apps", resource="replicasets", why="which pods are old and which are new"),
    Right(verbs=_LOOK, group="", resource="pods", why="when each pod came, was deleted and ended"),
    Right(verbs=_LOOK, group="", resource="services", why="where load goes"),
    Right(verbs=_LOOK, group="discovery.k8s.io", resource="endpointslices", why="which pods were to get traffic, and when"),
    Right(verbs=("patch",), group="apps", resource="deployments", why="to start the rollout", patches=True),
    Right(verbs=("list", "watch"), group="", resource="events", why="kills, failed probes and failed hooks", required=False),
    Right(verbs=("get",), group="", resource="pods/log", why="what pods said when they ended", required=False),
    Right(
        verbs=("list",),
        group="",
        resource="nodes",
        why="node addresses, where a NodePort answers",
        required=False,
        cluster_wide=True,
    ),
)
"""What a run does in the cluster, besides asking for these rights."""


async def verify(api: ClusterApi, namespace: str, *, patches: bool = True) -> tuple[str, ...]:
    """Asks for every right at once. Returns the optional ones that are missing, such as "list events".

    A cluster that cannot be asked (no SelfSubjectAccessReview) is taken to allow everything: then the requests themselves
    tell. Source: "Authorization", checking API access.

    Args:
        api: the API server.
        namespace: where the run is to take place.
        patches: whether the trigger changes the Deployment.

    Raises:
        ClusterError: a required right is missing; all of them in one line.
    """
    missing_required, missing_optional = await missing(api, namespace, patches=patches)
    if missing_required:
        raise ClusterError(
            f"missing rights in namespace {namespace!r}: {', '.join(missing_required)}",
            "loadtest access prints a Role that has them",
        )
    return missing_optional


async def missing(api: ClusterApi, namespace: str, *, patches: bool = True) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The (required, optional) rights that the API server would refuse, in the table's order."""
    asked = [(right, verb) for right in RIGHTS if patches or not right.patches for verb in right.verbs]
    answers = await asyncio.gather(*(_allowed(api, namespace, right, verb) for right, verb in asked))
    refused = [pair for pair, allowed in zip(asked, answers, strict=True) if not allowed]
    return (
        tuple(f"{verb} {right.resource}" for right, verb in refused if right.required),
        tuple(f"{verb} {right.resource}" for right, verb in refused if not right.required),
    )


async def _allowed(api: ClusterApi, namespace: str, right: Right, verb: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    wanted = {"verb": verb, "group": right.group, "resource": resource}
    if subresource:
        wanted["subresource"] = subresource
    if not right.cluster_wide:
        wanted["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    try:
        answer = await api.request("POST", paths.ACCESS_REVIEWS, body=body)
    except ApiError as error:
        if error.status in {403, 404, 405}:
            return True
        raise
    return bool((answer.get("status") or {}).get("allowed"))


def role_yaml(
    namespace: str, *, name: str = "rollout-loadtest", deployment: str = "", patches: bool = True, optional: bool = True
) -> str:
    """The least Role with these rights as YAML, and a ClusterRole for what lies outside namespaces.

    Args:
        namespace: of the Role.
        name: of the Role.
        deployment: the only one that may be patched; "": any.
        patches: with the right to start rollouts.
        optional: with the optional rights too.
    """
    wanted = [right for right in RIGHTS if (patches or not right.patches) and (optional or right.required)]
    documents = [_role("Role", name, namespace, [right for right in wanted if not right.cluster_wide], deployment)]
    beyond = [right for right in wanted if right.cluster_wide]
    if beyond:
        documents.append(_role("ClusterRole", name, "", beyond, ""))
    return "---\n".join(yaml.safe_dump(document, sort_keys=False) for document in documents)


def _role(kind: str, name: str, namespace: str, rights: list[Right], deployment: str) -> dict[str, object]:
    rules: list[dict[str, object]] = []
    for right in rights:
        rule: dict[str, object] = {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
        if right.patches and deployment:
            rule["resourceNames"] = [deployment]
        rules.append(rule)
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}
