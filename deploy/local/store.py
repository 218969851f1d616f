"""The image store every node starts from: archives imported once into one containerd, then shared
by hard links."""

import json
import shlex
import shutil
from pathlib import Path

from deploy.local.paths import Places
from deploy.local.shell import private, sh, stage

PAUSE = "docker.io/library/cede-pause:1"
CNI = ("/usr/lib/cni", "/opt/cni/bin")


def containerd_config(cni: Path) -> str:
    """One text for containerd 1.6 and 2."""
    plugins = next((folder for folder in CNI if Path(folder, "ptp").exists()), CNI[0])
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{cni}"
"""


def refresh(places: Places, keys: dict[str, str]) -> None:
    """The store holds exactly these images afterwards; only what changed is imported."""
    store = places.images / "store"
    state = store / "keys.json"
    new = changed(state, keys)
    if not new:
        return
    with stage(f"imported {', '.join(map(short, new))}"):
        if not held(state):
            shutil.rmtree(store, ignore_errors=True)
        (store / "containerd").mkdir(parents=True, exist_ok=True)
        # half an import is no store
        state.unlink(missing_ok=True)
        (store / "containerd.toml").write_text(containerd_config(store))
        imports = "\n".join(
            f"ctr -n k8s.io images import {shlex.quote(str(archive(places, image)))}"
            for image in new
        )
        sh(
            *private(
                "unshare",
                "--net",
                "sh",
                "-ec",
                SCRIPT.format(store=store, imports=imports),
                pids=True,
            )
        )
        state.write_text(json.dumps(keys))


SCRIPT = """mount --bind {store} /var/lib
mount -t tmpfs tmpfs /run
containerd --config {store}/containerd.toml --log-level=warn >{store}/log 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done
{imports}
kill $!
wait
"""


def copy_store(places: Places, to: Path) -> None:
    """Layers are never written to, so the copy, a node's, shares them; only the databases are its
    own."""
    source = places.images / "store" / "containerd"
    if to.exists():
        return
    sh("cp", "-al", source, to)
    shutil.copy(source.parent / "keys.json", to.parent.parent / "images.json")
    for database in source.rglob("*.db"):
        sh("cp", "--remove-destination", database, to / database.relative_to(source))


def archive(places: Places, image: str) -> Path:
    return places.images / f"{short(image).replace(':', '-')}.tar"


def held(state: Path) -> dict[str, str]:
    """The images, with their keys, that the store or node of this file holds."""
    found: dict[str, str] = json.loads(state.read_text()) if state.exists() else {}
    return found


def changed(state: Path, keys: dict[str, str]) -> list[str]:
    known = held(state)
    return [image for image, key in keys.items() if known.get(image) != key]


def short(image: str) -> str:
    return image.rpartition("/")[2]
