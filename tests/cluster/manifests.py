"""The manifests that tests of the tool need: a Deployment `web` of the demo app and its NodePort Service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.images import DEMO_IMAGES

PORT = 8080


def web(
    *,
    args: Sequence[str] = (),
    replicas: int = 2,
    node_port: int | None = None,
    strategy: str = "RollingUpdate",
    max_unavailable: int | str = 0,
    max_surge: int | str = 1,
    prestop_sleep: int | None = None,
    prestop_exec: Sequence[str] | None = None,
    grace: int = 30,
    share_process_namespace: bool = False,
    readiness: bool = True,
    liveness: Mapping[str, Any] | None = None,
    startup: Mapping[str, Any] | None = None,
    restart_policy: str | None = None,
    memory: str | None = None,
    image: str = DEMO_IMAGES[0],
    name: str = "web",
    env: Mapping[str, str] | None = None,
    node: str | None = None,
    spread: bool = False,
) -> str:
    """Deployment and NodePort Service of that name, port 80 to 8080, as YAML (it is JSON).

    `args` are the demo app's flags; `prestop_sleep` and `grace` are seconds. `node_port` None lets the cluster choose.
    `liveness` and `startup` are probes as in a manifest. `spread` puts neighbours on different nodes where it can.
    """
    container: dict[str, Any] = {
        "name": "app",
        "image": image,
        "args": [*args],
        "ports": [{"containerPort": PORT}],
        "env": [
            field("POD_NAME", "metadata.name"),
            field("POD_IP", "status.podIP"),
            field("NODE_NAME", "spec.nodeName"),
            *({"name": key, "value": value} for key, value in (env or {}).items()),
        ],
    }
    if readiness:
        container["readinessProbe"] = probe("/healthz", periodSeconds=1, failureThreshold=1)
    if liveness:
        container["livenessProbe"] = dict(liveness)
    if startup:
        container["startupProbe"] = dict(startup)
    if memory:
        container["resources"] = {"limits": {"memory": memory}, "requests": {"memory": memory}}
    if prestop_sleep is not None:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": prestop_sleep}}}
    if prestop_exec is not None:
        container["lifecycle"] = {"preStop": {"exec": {"command": [*prestop_exec]}}}
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
    }
    if share_process_namespace:
        pod["shareProcessNamespace"] = True
    if restart_policy:
        pod["restartPolicy"] = restart_policy
    if node:
        pod["nodeSelector"] = {"kubernetes.io/hostname": node}
    labels = {"app": name}
    if spread:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    rolling = {"rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": strategy, **(rolling if strategy == "RollingUpdate" else {})},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment, service(name, node_port)]})


def service(name: str, node_port: int | None = None) -> dict[str, Any]:
    """A NodePort Service over the pods labelled `app: name`."""
    port: dict[str, Any] = {"name": "http", "port": 80, "targetPort": PORT}
    if node_port is not None:
        port["nodePort"] = node_port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"type": "NodePort", "selector": {"app": name}, "ports": [port]},
    }


def probe(path: str, **settings: int) -> dict[str, Any]:
    """An HTTP probe on the app's port, with settings such as periodSeconds=1."""
    return {"httpGet": {"path": path, "port": PORT}, **settings}


def field(variable: str, path: str) -> dict[str, Any]:
    """An environment variable from a field of the pod (downward API)."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}
