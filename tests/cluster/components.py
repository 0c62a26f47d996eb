"""What each program of the cluster is started with: command lines and configuration files."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.build import Binaries
from tests.cluster.layout import API_PORT, CONTROL_ADDRESS, POD_RANGE, SERVICE_RANGE, Layout, Node
from tests.cluster.network import in_node
from tests.cluster.requirements import CNI_PLUGINS

PAUSE_IMAGE = "localhost/loadtest-pause:1"

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["delete", "deletecollection"],
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {
            "level": "Request",
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [{"group": "discovery.k8s.io", "resources": ["endpointslices"]}],
        },
        {"level": "None"},
    ],
}
"""Deletions, evictions and slice writes with their microseconds: the witness that the tool's windows are tested by."""


def etcd(binaries: Binaries, layout: Layout) -> list[str]:
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        str(binaries.path("etcd")),
        f"--data-dir={layout.private / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def apiserver(binaries: Binaries, layout: Layout) -> list[str]:
    policy = layout.configs / "audit.yaml"
    policy.write_text(json.dumps(AUDIT_POLICY))
    certificates = layout.certificates
    return [
        str(binaries.path("kube-apiserver")),
        "--etcd-servers=http://127.0.0.1:2379",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--secure-port={API_PORT}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={CONTROL_ADDRESS}",
        f"--tls-cert-file={certificates / 'api.crt'}",
        f"--tls-private-key-file={certificates / 'api.key'}",
        f"--client-ca-file={certificates / 'ca.crt'}",
        f"--token-auth-file={certificates / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates / 'accounts.pub'}",
        f"--service-account-signing-key-file={certificates / 'accounts.key'}",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",  # else pod logs ask for the node's host name
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.log('audit')}",
    ]


def controller_manager(binaries: Binaries, layout: Layout) -> list[str]:
    return [
        str(binaries.path("kube-controller-manager")),
        f"--kubeconfig={layout.kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={layout.certificates / 'accounts.key'}",
        f"--root-ca-file={layout.certificates / 'ca.crt'}",
        "--leader-elect=false",
    ]


def scheduler(binaries: Binaries, layout: Layout) -> list[str]:
    kubeconfig = layout.kubeconfig("kube-scheduler")
    return [str(binaries.path("kube-scheduler")), f"--kubeconfig={kubeconfig}", "--leader-elect=false"]


def containerd(binaries: Binaries, layout: Layout, node: Node) -> list[str]:
    """The node's runtime, with its own root, sockets and pod network."""
    own = layout.private / node.name
    cni = layout.configs / f"cni-{node.name}"
    cni.mkdir(exist_ok=True)
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": node.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(own / "addresses"),
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    network = {"cniVersion": "1.0.0", "name": "loadtest", "plugins": [bridge, ports]}
    (cni / "10-loadtest.conflist").write_text(json.dumps(network))
    config = layout.configs / f"containerd-{node.name}.toml"
    # No CAP_SYS_RESOURCE in some sandboxes: without the restriction runc fails with "can't get final child's PID".
    config.write_text(f"""\
version = 3
root = "{own}/containerd"
state = "{own}/containerd-state"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "{layout.containerd_socket(node)}"
[plugins."io.containerd.internal.v1.opt"]
path = "{own}/opt"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
""")
    shim_path = f"PATH={binaries.folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return in_node(node, "env", shim_path, str(binaries.path("containerd")), "-c", str(config))


def kubelet(binaries: Binaries, layout: Layout, node: Node) -> list[str]:
    own = layout.private / node.name
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        # No groups per quality-of-service class: the same on both cgroup versions. Memory limits work without.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket(node)}",
        "resolvConf": "",
        "clusterDNS": ["10.96.0.10"],  # nothing is there, but without it each pod gets a warning Event
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "address": node.address,
        "podLogsDir": str(own / "pod-logs"),  # a shared one is emptied by the other kubelet
    }
    path = layout.configs / f"kubelet-{node.name}.yaml"
    path.write_text(json.dumps(config))
    return in_node(
        node,
        str(binaries.path("kubelet")),
        f"--config={path}",
        f"--kubeconfig={layout.kubeconfig(f'kubelet-{node.name}')}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--root-dir={own / 'kubelet'}",
        f"--cert-dir={own / 'kubelet' / 'pki'}",
        "-v=2",
    )


def proxy(binaries: Binaries, layout: Layout, node: Node) -> list[str]:
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("kube-proxy"))},
        "clusterCIDR": POD_RANGE,
        "mode": "iptables",
        "hostnameOverride": node.name,
        # The size of the connection table belongs to the whole machine: leave it.
        "conntrack": {"maxPerCore": 0, "min": None, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    path = layout.configs / f"kube-proxy-{node.name}.yaml"
    path.write_text(json.dumps(config))
    return in_node(node, str(binaries.path("kube-proxy")), f"--config={path}", "-v=2")  # 2: says each sync
