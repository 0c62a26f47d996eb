"""Builds the programs of the test cluster from Go modules into a cache folder outside the tree.

The folder is named by a hash of everything that goes into it: versions, sources, build flags, Go's own version. It is
built aside and renamed, so a folder that exists is whole. About six minutes on two cores with an empty Go cache.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.cluster.trouble import CannotRunError, ClusterError

KUBERNETES = "1.36.3"
ETCD = "3.6.15"
CONTAINERD = "2.3.7"
FORTIO = "1.66.5"
GO_LANGUAGE = "1.26.0"

SOURCES = Path(__file__).parent
LINKED = ("-trimpath", "-ldflags", "-s -w")
KUBERNETES_PROGRAMS = (
    "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Where the built programs lie; each is one static executable (Linux, this machine's architecture)."""

    folder: Path

    def path(self, name: str) -> Path:
        """One program by its usual name, `kubelet` for instance."""
        return self.folder / name

    @property
    def kubectl(self) -> Path:
        return self.folder / "kubectl"

    @property
    def fortio(self) -> Path:
        return self.folder / "fortio"

    @property
    def ctr(self) -> Path:
        return self.folder / "ctr"

    @property
    def pause(self) -> Path:
        return self.folder / "pause"


def cache_folder() -> Path:
    """The folder that holds what is expensive to make and the same for every clone of the project."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rollout-loadtest" / "testbed"


def key() -> str:
    """A name for the binaries: a hash of everything that they are made from."""
    digest = hashlib.sha256()
    for part in (KUBERNETES, ETCD, CONTAINERD, FORTIO, GO_LANGUAGE, go("version"), Path(__file__).read_text()):
        digest.update(part.encode() + b"\0")
    for source in sorted(SOURCES.glob("*/main.go")):
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def binaries(report: Callable[[str], None] = lambda line: None) -> Binaries:
    """The programs, built first if the cache has none. `report` gets a line for each step that takes long.

    Raises CannotRunError without Go and ClusterError, with the end of the compiler's words, when a build fails.
    """
    target = cache_folder() / f"bin-{key()}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as scratch:
            out = Path(scratch) / "out"
            out.mkdir()
            for name, build in STEPS:
                report(f"building {name}")
                folder = Path(scratch) / name
                folder.mkdir()
                build(folder, out)
            if not target.is_dir():
                out.rename(target)
    keep_newest(target)
    return Binaries(folder=target)


def keep_newest(used: Path, number: int = 3) -> None:
    """Marks a thing of the cache as used now and removes those of its kind that were not used lately."""
    os.utime(used)
    kind = used.name.rpartition("-")[0]
    older = sorted(used.parent.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)[:-number]
    for path in older:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def build_kubernetes(folder: Path, out: Path) -> None:
    """All of Kubernetes as `node`, and a link to it for each program.

    k8s.io/kubernetes names its staging modules by folders (`replace`), which a module that depends on it does not
    inherit. So its go.mod is taken over, with the published versions in the place of the folders.
    """
    staging = f"v0.{KUBERNETES.removeprefix('1.')}"
    described = json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}", cwd=folder))
    upstream = Path(described["GoMod"]).read_text()
    requires = "\n".join(re.findall(r"^require \(.*?^\)", upstream, re.MULTILINE | re.DOTALL))
    requires = re.sub(r"^(\s*k8s\.io/[a-z-]+) v0\.0\.0(?=\s|$)", rf"\1 {staging}", requires, flags=re.MULTILINE)
    replaced = re.findall(r"^\s*(?:replace )?(\S+) => \./staging/", upstream, re.MULTILINE)
    lines = [
        "module testbed",
        f"go {re.findall(r'^go (.*)$', upstream, re.MULTILINE)[0]}",
        requires,
        f"require k8s.io/kubernetes v{KUBERNETES}",
        *(f"replace {module} => {module} {staging}" for module in replaced),
    ]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    shutil.copytree(SOURCES / "node", folder / "node")
    version = "k8s.io/component-base/version"
    stamps = {"gitVersion": f"v{KUBERNETES}", "gitMajor": "1", "gitMinor": KUBERNETES.split(".")[1]}
    flags = " ".join(["-s -w", *(f"-X {version}.{name}={value}" for name, value in stamps.items())])
    go("build", "-trimpath", "-ldflags", flags, "-o", str(out / "node"), "./node", cwd=folder)
    for program in KUBERNETES_PROGRAMS:
        (out / program).symlink_to("node")


def build_etcd(folder: Path, out: Path) -> None:
    require(folder, "go.etcd.io/etcd/server/v3", ETCD)
    go("build", *LINKED, "-o", str(out / "etcd"), "go.etcd.io/etcd/server/v3", cwd=folder)


def build_containerd(folder: Path, out: Path) -> None:
    require(folder, "github.com/containerd/containerd/v2", CONTAINERD)
    packages = (f"github.com/containerd/containerd/v2/cmd/{n}" for n in ("containerd", "containerd-shim-runc-v2", "ctr"))
    go("build", "-tags", "no_btrfs", *LINKED, "-o", f"{out}/", *packages, cwd=folder)


def build_fortio(folder: Path, out: Path) -> None:
    require(folder, "fortio.org/fortio", FORTIO)
    go("build", *LINKED, "-o", str(out / "fortio"), "fortio.org/fortio", cwd=folder)


def build_pause(folder: Path, out: Path) -> None:
    (folder / "go.mod").write_text(f"module pause\n\ngo {GO_LANGUAGE}\n")
    shutil.copy(SOURCES / "pause" / "main.go", folder)
    go("build", *LINKED, "-o", str(out / "pause"), ".", cwd=folder)


STEPS: tuple[tuple[str, Callable[[Path, Path], None]], ...] = (
    ("kubernetes", build_kubernetes),
    ("etcd", build_etcd),
    ("containerd", build_containerd),
    ("fortio", build_fortio),
    ("pause", build_pause),
)


def require(folder: Path, module: str, version: str) -> None:
    """Makes `folder` a module that needs exactly one other."""
    (folder / "go.mod").write_text(f"module testbed\n\ngo {GO_LANGUAGE}\n\nrequire {module} v{version}\n")


def go(*arguments: str, cwd: Path | None = None) -> str:
    """Runs the go command and returns what it prints."""
    if shutil.which("go") is None:
        raise CannotRunError("go is not installed (it builds Kubernetes, etcd and containerd)")
    # Whatever the machine's own settings are: write go.sum as needed, no C compiler, no look at version control.
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(["go", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"go {arguments[0]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
