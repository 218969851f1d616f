"""The images that the nodes hold: Cede's two out of deploy/Dockerfile, Kueue's, and the sandbox's.
No registry."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.local import binaries, store
from deploy.local.paths import TREE, Places
from deploy.local.shell import private, sh, stage

BASE = "docker.io/library/python:3.11-slim"
CEDE = "docker.io/library/cede:dev"
TRAINING = "docker.io/library/cede-training:dev"
KUEUE = f"docker.io/library/kueue:{binaries.version('sigs.k8s.io/kueue')[1:]}"
DEBIAN = "bookworm"
PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates"
DOCKERFILE = "deploy/Dockerfile"


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    # a stage of deploy/Dockerfile; empty: `text` is the Dockerfile
    target: str = ""
    # what of the tree it holds
    inputs: tuple[str, ...] = ()
    text: str = ""

    def key(self, base: str) -> str:
        files = [DOCKERFILE, "deploy/Dockerfile.dockerignore", *self.inputs] if self.target else []
        found = hashlib.sha256(f"{base} {self.text}".encode())
        for path in files:
            found.update(contents(TREE / path))
        return found.hexdigest()[:16]


WHEEL = ("cede", "elastic_runtime")
PYTHON = ("webhook", "scheduler", "quota_controller", *WHEEL)
IMAGES = (
    Image(store.PAUSE, text=f'FROM {BASE}\nCMD ["sleep", "infinity"]\n'),
    Image(KUEUE, text='FROM scratch\nCOPY kueue /manager\nUSER 65532\nENTRYPOINT ["/manager"]\n'),
    Image(CEDE, "controllers", ("deploy/locks/controllers.txt", *PYTHON)),
    Image(
        TRAINING,
        "training",
        ("deploy/locks/build.txt", "pyproject.toml", "README.md", "LICENSE", "examples", *WHEEL),
    ),
)


def contents(path: Path) -> bytes:
    """A digest of a file, or of all files below a folder, with their names in the tree."""
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
    """What each image would be made of now."""
    base = f"{DEBIAN} {PACKAGES} {binaries.key()}"
    return {image.name: image.key(base) for image in IMAGES}


def prepare(places: Places) -> dict[str, str]:
    """All images are built and in the store that nodes start from; what has not changed is not
    touched. Returns their keys."""
    places.images.mkdir(parents=True, exist_ok=True)
    wanted = keys()
    for image in IMAGES:
        noted = store.archive(places, image.name).with_suffix(".key")
        if not (noted.exists() and noted.read_text() == wanted[image.name]):
            base(places)
            with stage(f"built {store.short(image.name)}"):
                build(places, image)
            noted.write_text(wanted[image.name])
    store.refresh(places, wanted)
    return wanted


def build(places: Places, image: Image) -> None:
    """The image's archive is there."""
    archive = store.archive(places, image.name)
    archive.unlink(missing_ok=True)
    archive.with_suffix(".key").unlink(missing_ok=True)
    if image.target:
        where = [
            "-f",
            str(TREE / DOCKERFILE),
            "--target",
            image.target,
            "--ignorefile",
            f"{TREE / DOCKERFILE}.dockerignore",
            str(TREE),
        ]
    else:
        recipe = places.images / "Dockerfile"
        recipe.write_text(image.text)
        where = ["-f", str(recipe), str(places.bin)]
    how = [
        "--isolation",
        "chroot",
        "--pull-never",
        "--network",
        "host",
        "--layers",
        *authorities(places),
    ]
    buildah(places, "build", *how, "-t", image.name, *where)
    buildah(
        places, "push", "--disable-compression", image.name, f"oci-archive:{archive}:{image.name}"
    )


def base(places: Places) -> None:
    """A stand-in for the public Python image, under its name: Debian's own Python of the same minor
    version."""
    made = f"{DEBIAN} {PACKAGES}"
    noted = places.images / "base.key"
    there = sh(*buildah_words(places), "images", "-q", BASE, check=False).strip()
    if there and noted.exists() and noted.read_text() == made:
        return
    with stage(f"made {store.short(BASE)} out of Debian packages"):
        root = places.images / "root"
        tar = places.images / "root.tar"
        shutil.rmtree(root, ignore_errors=True)
        sh(*private("debootstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, root))
        for path in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            path.unlink()
        bulk = (
            "var/cache/apt",
            "var/lib/apt/lists",
            "usr/share/doc",
            "usr/share/man",
            "usr/share/locale",
            "proc",
            "sys",
            "dev",
        )
        sh("tar", "-C", root, *(f"--exclude=./{folder}/*" for folder in bulk), "-cf", tar, ".")
        (places.images / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
        buildah(
            places, "build", "-t", BASE, "-f", str(places.images / "Dockerfile"), str(places.images)
        )
        shutil.rmtree(root)
        tar.unlink()
        noted.write_text(made)


def authorities(places: Places) -> list[str]:
    """The machine's own certificate authorities, seen by the build and not kept in the image."""
    return (
        ["-v", f"{places.authorities}:/etc/ssl/certs/ca-certificates.crt:ro"]
        if places.authorities
        else []
    )


def buildah(places: Places, *argv: str) -> None:
    sh(*buildah_words(places), *argv)


def buildah_words(places: Places) -> list[str]:
    """Its own storage, and mounts that end with it."""
    home = places.images / "buildah"
    flags = ("--root", home / "root", "--runroot", home / "run", "--storage-driver", "overlay")
    return [str(word) for word in private("buildah", *flags)]
