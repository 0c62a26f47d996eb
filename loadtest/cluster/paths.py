"""Where objects live in the API, as plain strings.

Source: "Kubernetes API Concepts", resource URIs: the core group under `/api/v1`, all others under `/apis/GROUP/VERSION`,
namespaced objects under `namespaces/NAME/PLURAL`.
"""

from __future__ import annotations

from urllib.parse import quote

from loadtest.model import Resource

GROUPS: dict[Resource, tuple[str, str]] = {
    Resource.DEPLOYMENTS: ("apps", "v1"),
    Resource.REPLICASETS: ("apps", "v1"),
    Resource.PODS: ("", "v1"),
    Resource.SERVICES: ("", "v1"),
    Resource.EVENTS: ("", "v1"),  # core/v1: events.k8s.io leaves eventTime null for every event of a kubelet
    Resource.ENDPOINTSLICES: ("discovery.k8s.io", "v1"),
}
"""API group and version of each kind that a run looks at."""

NODES = "/api/v1/nodes"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
VERSION = "/version"


def collection(resource: Resource, namespace: str) -> str:
    """The path of all objects of a kind in a namespace."""
    group, version = GROUPS[resource]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{resource}"


def single(resource: Resource, namespace: str, name: str) -> str:
    """The path of one object."""
    return f"{collection(resource, namespace)}/{quote(name, safe='')}"


def log(namespace: str, pod: str) -> str:
    """The path of a pod's log."""
    return f"{single(Resource.PODS, namespace, pod)}/log"
