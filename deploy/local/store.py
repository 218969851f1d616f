"""The image store: archives are imported once into one containerd, and nodes share its layers."""

import json
import shlex
import shutil
from pathlib import Path

from deploy.local.paths import Paths
from deploy.local.shell import in_private_namespaces, run_command, stage

PAUSE = "docker.io/library/cede-pause:1"
CNI = ("/usr/lib/cni", "/opt/cni/bin")


def containerd_config(cni: Path) -> str:
    """The configuration, for containerd 1.6 and 2."""
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


def update(paths: Paths, keys: dict[str, str]) -> None:
    """Imports the images that have changed; `keys` are those of all images."""
    store = paths.images / "store"
    state = store / "keys.json"
    new = changed_images(state, keys)
    if not new:
        return
    with stage(f"imported {', '.join(map(short_name, new))}"):
        if not recorded_keys(state):
            shutil.rmtree(store, ignore_errors=True)
        (store / "containerd").mkdir(parents=True, exist_ok=True)
        # if the import is interrupted, the next one starts again
        state.unlink(missing_ok=True)
        (store / "containerd.toml").write_text(containerd_config(store))
        imports = "\n".join(
            f"ctr -n k8s.io images import {shlex.quote(str(archive(paths, image)))}"
            for image in new
        )
        run_command(
            *in_private_namespaces(
                "unshare",
                "--net",
                "sh",
                "-ec",
                IMPORT_SCRIPT.format(store=store, imports=imports),
                pids=True,
            )
        )
        state.write_text(json.dumps(keys))


IMPORT_SCRIPT = """mount --bind {store} /var/lib
mount -t tmpfs tmpfs /run
containerd --config {store}/containerd.toml --log-level=warn >{store}/log 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done
{imports}
kill $!
wait
"""


def copy_store(paths: Paths, target: Path) -> None:
    """Copies the store for a node.

    Layers are never written to, so they are hard links; only the databases are copied.
    """
    source = paths.images / "store" / "containerd"
    if target.exists():
        return
    run_command("cp", "-al", source, target)
    shutil.copy(source.parent / "keys.json", target.parent.parent / "images.json")
    for database in source.rglob("*.db"):
        run_command("cp", "--remove-destination", database, target / database.relative_to(source))


def archive(paths: Paths, image: str) -> Path:
    return paths.images / f"{short_name(image).replace(':', '-')}.tar"


def recorded_keys(state: Path) -> dict[str, str]:
    """The images in a store or a node, with their keys, from the file that records them."""
    keys: dict[str, str] = json.loads(state.read_text()) if state.exists() else {}
    return keys


def changed_images(state: Path, keys: dict[str, str]) -> list[str]:
    known = recorded_keys(state)
    return [image for image, key in keys.items() if known.get(image) != key]


def short_name(image: str) -> str:
    return image.rpartition("/")[2]
