"""Makes the two container images without Docker: OCI archives of one layer, kept in the cache.

`localhost/...` names no registry, so the runtime adds no default domain and never asks anyone.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.build import Binaries, cache_folder, keep_newest
from tests.cluster.components import PAUSE_IMAGE
from tests.cluster.trouble import ClusterError

DEMO_IMAGES = ("localhost/loadtest-demo:1", "localhost/loadtest-demo:2")
DEMO_APP = Path(__file__).parents[2] / "loadtest" / "sandbox" / "demo_app.py"
LIBRARIES = "lib/image"
APPLETS = ("sh", "sleep", "touch", "cat", "ls", "kill", "ps", "wget")
LEFT_OUT = re.compile(
    r"/(test|tests|idlelib|lib2to3|ensurepip|tkinter|turtledemo|pydoc_data|distutils|unittest|xmlrpc|sqlite3|venv"
    r"|site-packages|dist-packages|config-3[^/]*|curses|dbm|wsgiref|msilib)(/|$)"
    r"|opt-[12]\.pyc$|\.(a|exe)$|/_(testcapi|test\w*|xxtestfuzz|tkinter|sqlite3|ctypes_test|curses\w*|dbm|gdbm)\.\w*-?.*\.so$"
)
"""Of the standard library: what no server needs."""


def archives(binaries: Binaries) -> list[Path]:
    """The image archives, made first where the cache has none: pause, demo app."""
    pause = cached("pause", [binaries.pause], lambda path: write(path, (PAUSE_IMAGE,), ["/pause"], pause_layer(binaries)))
    python = [Path(__file__), DEMO_APP, Path(os.__file__), Path(sys.executable).resolve()]
    entry = ["/usr/local/bin/python3", "-u", "/app/demo_app.py"]
    demo = cached("demo", python, lambda path: write(path, DEMO_IMAGES, entry, demo_layer()))
    return [pause, demo]


def cached(name: str, sources: Sequence[Path], make: Callable[[Path], None]) -> Path:
    """The archive of that name made from those files, whole if it exists at all."""
    digest = hashlib.sha256(sys.version.encode())
    for source in sources:
        digest.update(source.read_bytes())
    path = cache_folder() / f"{name}-{digest.hexdigest()[:16]}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="image-") as scratch:
            made = Path(scratch) / "image.tar"
            make(made)
            made.rename(path)
    keep_newest(path)
    return path


def pause_layer(binaries: Binaries) -> bytes:
    with io.BytesIO() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.add(binaries.pause, "pause", filter=as_root)
        return layer.getvalue()


def demo_layer() -> bytes:
    """The running interpreter with what it needs of its standard library and of the machine's shared libraries."""
    if not DEMO_APP.is_file():
        raise ClusterError(f"there is no demo app at {DEMO_APP}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(sys.executable).resolve()
    busybox = Path(shutil.which("busybox") or "/bin/busybox").resolve()
    standard = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))
    modules = [path for path in (standard / "lib-dynload").glob("*.so") if not LEFT_OUT.search(str(path))]
    with io.BytesIO() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for name in ("tmp", "etc", "proc", "dev", "sys", "var/log", "run", "app"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                tar.addfile(folder)
            tar.add(interpreter, "usr/local/bin/python3", filter=as_root)
            tar.add(standard, f"usr/local/lib/{version}", filter=wanted)
            tar.add(busybox, "bin/busybox", filter=as_root)
            for applet in APPLETS:  # for the commands of hooks
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
            for name, library in shared_libraries([interpreter, busybox, *modules]).items():
                tar.add(library.resolve(), name, filter=as_root)
            tar.add(DEMO_APP, "app/demo_app.py", filter=as_root)
        return layer.getvalue()


def shared_libraries(programs: Sequence[Path]) -> dict[str, Path]:
    """Path in the image to path here, for all that the dynamic linker would load; the linker itself keeps its place."""
    said = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    found = {f"{LIBRARIES}/{name}": Path(path) for name, path in re.findall(r"(\S+) => (/\S+) \(0x", said)}
    found |= {path.lstrip("/"): Path(path) for path in re.findall(r"^\s+(/\S+) \(0x", said, re.MULTILINE)}
    return found


def as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if LEFT_OUT.search("/" + member.name) else as_root(member)


def write(path: Path, names: Sequence[str], entry: Sequence[str], layer: bytes) -> None:
    """An OCI archive with one image under several names."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    environment = ["PATH=/usr/local/bin:/usr/bin:/bin", f"LD_LIBRARY_PATH=/{LIBRARIES}", "PYTHONHOME=/usr/local"]
    config = {
        "architecture": machine,
        "os": "linux",
        "config": {"Entrypoint": list(entry), "Env": environment},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    config_blob = json.dumps(config).encode()
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": describe(f"{kind}.config.v1+json", config_blob),
        "layers": [describe(f"{kind}.layer.v1.tar", layer)],
    }
    manifest_blob = json.dumps(manifest).encode()
    described = describe(f"{kind}.manifest.v1+json", manifest_blob)
    named = [{**described, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = json.dumps({"schemaVersion": 2, "manifests": named}).encode()
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
    files |= {f"blobs/sha256/{digest(blob).removeprefix('sha256:')}": blob for blob in (layer, config_blob, manifest_blob)}
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def describe(media_type: str, blob: bytes) -> dict[str, str | int]:
    return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}
