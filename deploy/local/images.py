"""Builds the images of the nodes: the two of deploy/Dockerfile, Kueue's, and the sandbox's."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.local import binaries, store
from deploy.local.paths import TREE, Paths
from deploy.local.shell import in_private_namespaces, run_command, stage

BASE = "localhost/python:3.11-debian"
CEDE = "docker.io/library/cede:dev"
TRAINING = "docker.io/library/cede-training:dev"
KUEUE = f"docker.io/library/kueue:{binaries.version('sigs.k8s.io/kueue')[1:]}"
DEBIAN = "bookworm"
PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates"
DOCKERFILE = "deploy/Dockerfile"
DEBOOTSTRAP = ("debootstrap", "--force-check-gpg")
"""Without the option it only warns where the keyring of Debian is missing."""


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    # the stage of deploy/Dockerfile to build; empty: `text` is the Dockerfile
    target: str = ""
    # the files and folders of the repository that it contains
    inputs: tuple[str, ...] = ()
    text: str = ""

    def key(self, base: str) -> str:
        files = [DOCKERFILE, "deploy/Dockerfile.dockerignore", *self.inputs] if self.target else []
        digest_ = hashlib.sha256(f"{base} {self.text}".encode())
        for path in files:
            digest_.update(digest(TREE / path))
        return digest_.hexdigest()[:16]


WHEEL_FOLDERS = ("cede", "elastic_runtime")
CONTROLLER_FOLDERS = (
    *("webhook", "scheduler", "quota_controller", "ledger", "whatif"),
    *WHEEL_FOLDERS,
)
IMAGES = (
    Image(store.PAUSE, text=f'FROM {BASE}\nCMD ["sleep", "infinity"]\n'),
    Image(KUEUE, text='FROM scratch\nCOPY kueue /manager\nUSER 65532\nENTRYPOINT ["/manager"]\n'),
    Image(CEDE, "controllers", ("deploy/locks/controllers.txt", *CONTROLLER_FOLDERS)),
    Image(
        TRAINING,
        "training",
        (
            "deploy/locks/build.txt",
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "examples",
            *WHEEL_FOLDERS,
        ),
    ),
)


def digest(path: Path) -> bytes:
    """A digest of a file, or of all files below a folder with their names."""
    files = (
        [path]
        if path.is_file()
        else [Path(top, name) for top, _, names in os.walk(path) for name in names]
    )
    kept = sorted(f for f in files if "__pycache__" not in f.parts)
    lines = [
        (
            f"{f.relative_to(TREE)} {f.stat().st_mode & 0o111} "
            f"{hashlib.sha256(f.read_bytes()).hexdigest()}"
        )
        for f in kept
    ]
    return hashlib.sha256("\n".join(lines).encode()).digest()


def keys() -> dict[str, str]:
    """The key of each image: it changes with everything that the image is built from."""
    base = f"{DEBIAN} {PACKAGES} {binaries.key()}"
    return {image.name: image.key(base) for image in IMAGES}


def update(paths: Paths) -> dict[str, str]:
    """Builds the images that have changed, and puts them into the store. Returns all keys."""
    paths.images.mkdir(parents=True, exist_ok=True)
    wanted = keys()
    for image in IMAGES:
        record = store.archive(paths, image.name).with_suffix(".key")
        if not (record.exists() and record.read_text() == wanted[image.name]):
            build_base(paths)
            with stage(f"built {store.short_name(image.name)}"):
                build(paths, image)
            record.write_text(wanted[image.name])
    store.update(paths, wanted)
    return wanted


def build(paths: Paths, image: Image, tree: Path = TREE) -> None:
    """Builds one image into its archive, with the files of the repository in `tree`."""
    archive = store.archive(paths, image.name)
    archive.unlink(missing_ok=True)
    archive.with_suffix(".key").unlink(missing_ok=True)
    if image.target:
        source = [
            "-f",
            str(tree / DOCKERFILE),
            "--target",
            image.target,
            "--build-arg",
            f"BASE={BASE}",
            "--ignorefile",
            f"{tree / DOCKERFILE}.dockerignore",
            str(tree),
        ]
    else:
        dockerfile = paths.images / "Dockerfile"
        dockerfile.write_text(image.text)
        source = ["-f", str(dockerfile), str(paths.bin)]
    options = [
        "--isolation",
        "chroot",
        "--pull-never",
        "--network",
        "host",
        "--layers",
        *certificate_mounts(paths),
    ]
    buildah(paths, "build", *options, "-t", image.name, *source)
    buildah(
        paths, "push", "--disable-compression", image.name, f"oci-archive:{archive}:{image.name}"
    )


def build_base(paths: Paths) -> None:
    """Builds the image that all others are from: Debian with its own Python 3.11."""
    key = f"{DEBIAN} {PACKAGES}"
    record = paths.images / "base.key"
    image_id = run_command(*buildah_command(paths), "images", "-q", BASE, check=False).strip()
    if image_id and record.exists() and record.read_text() == key:
        return
    with stage(f"built {store.short_name(BASE)} out of Debian packages"):
        root = paths.images / "root"
        tar = paths.images / "root.tar"
        shutil.rmtree(root, ignore_errors=True)
        run_command(
            *in_private_namespaces(
                *DEBOOTSTRAP, "--variant=minbase", f"--include={PACKAGES}", DEBIAN, root
            )
        )
        for path in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            path.unlink()
        left_out = (
            "var/cache/apt",
            "var/lib/apt/lists",
            "usr/share/doc",
            "usr/share/man",
            "usr/share/locale",
            "proc",
            "sys",
            "dev",
        )
        run_command(
            "tar", "-C", root, *(f"--exclude=./{folder}/*" for folder in left_out), "-cf", tar, "."
        )
        (paths.images / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
        buildah(
            paths, "build", "-t", BASE, "-f", str(paths.images / "Dockerfile"), str(paths.images)
        )
        shutil.rmtree(root)
        tar.unlink()
        record.write_text(key)


def certificate_mounts(paths: Paths) -> list[str]:
    """Mounts this machine's certificate authorities in builds; they do not get into images."""
    return (
        ["-v", f"{paths.authorities}:/etc/ssl/certs/ca-certificates.crt:ro"]
        if paths.authorities
        else []
    )


def buildah(paths: Paths, *argv: str) -> None:
    run_command(*buildah_command(paths), *argv)


def buildah_command(paths: Paths) -> list[str]:
    """buildah with a storage of its own, in a mount namespace of its own."""
    home = paths.images / "buildah"
    flags = ("--root", home / "root", "--runroot", home / "run", "--storage-driver", "overlay")
    return [str(word) for word in in_private_namespaces("buildah", *flags)]
