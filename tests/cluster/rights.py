"""The rights of the ServiceAccount that the tool runs under in tests: what a run needs, and nothing else."""

from __future__ import annotations

import json

LOOK = ["get", "list", "watch"]


def limited_role(account: str, namespace: str, *, events: bool, logs: bool) -> str:
    """A ServiceAccount, a Role of the same name and their binding, as YAML (it is JSON)."""
    rules = [
        rule("", ["pods", "services"], LOOK),
        rule("discovery.k8s.io", ["endpointslices"], LOOK),
        rule("apps", ["deployments", "replicasets"], LOOK),
        rule("apps", ["deployments"], ["patch"]),
    ]
    if events:
        rules.append(rule("", ["events"], LOOK))
    if logs:
        rules.append(rule("", ["pods/log"], ["get"]))
    metadata = {"name": account, "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    items = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
