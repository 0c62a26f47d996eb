"""Keys, certificates, static tokens and kubeconfigs of a cluster that lives for an hour or a day."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

from tests.cluster.layout import API_PORT, CONTROL_ADDRESS, NODES, SERVICE_ADDRESS, Layout

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
ALTERNATIVE_NAMES = f"subjectAltName=IP:{CONTROL_ADDRESS},IP:127.0.0.1,IP:{SERVICE_ADDRESS},DNS:kubernetes.default.svc"

USERS = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    **{f"kubelet-{node.name}": (f"system:node:{node.name}", "system:nodes") for node in NODES},
}
"""Kubeconfig name to user and group; the token is the name with `-token` behind it."""


def make(layout: Layout) -> None:
    """Writes everything that the programs need to know each other."""
    folder = layout.certificates
    openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "accounts.key")
    openssl(folder, "ec", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")
    openssl(folder, "req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=loadtest-ca", "-days", "9")
    openssl(folder, "req", *KEY, "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver")
    (folder / "names").write_text(ALTERNATIVE_NAMES)
    sign = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "9", "-extfile", "names")
    openssl(folder, "x509", "-req", "-in", "api.csr", "-out", "api.crt", *sign)
    rows = [f'{name}-token,{user},{number},"{group}"' for number, (name, (user, group)) in enumerate(USERS.items())]
    (folder / "tokens.csv").write_text("\n".join(rows) + "\n")
    for name in USERS:
        write_kubeconfig(layout, name, f"{name}-token")


def write_kubeconfig(layout: Layout, name: str, token: str, namespace: str = "default") -> Path:
    """A kubeconfig that holds all it needs, so that it may be copied elsewhere. JSON is YAML."""
    authority = base64.b64encode((layout.certificates / "ca.crt").read_bytes()).decode()
    server = {"server": f"https://{CONTROL_ADDRESS}:{API_PORT}", "certificate-authority-data": authority}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "loadtest", "cluster": server}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": "loadtest", "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    path = layout.kubeconfig(name)
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
