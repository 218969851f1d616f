"""The disk of the machine: Debian 12 as it is installed, and what `make up` would fetch or build.

Both are made again only when something that goes into them has changed.
"""

import hashlib
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local import binaries, images, requirements, store
from deploy.local.paths import Paths
from deploy.local.shell import in_private_namespaces, report_progress, run_command, stage

PACKAGES = sorted(
    {
        *("linux-image-cloud-amd64", "apparmor", "dbus", "openssh-server", "zstd"),
        *("make", "python3-venv", "containernetworking-plugins"),
        *requirements.RUNTIME.values(),
        *requirements.BUILD.values(),
    }
)
"""What an ordinary machine has beside Debian's standard, and what setup.sh asks for."""
# of QEMU's own network, in which the machine reaches nothing
INTERFACE = """auto eth0
iface eth0 inet static
    address 10.0.2.15/24
"""
FILES = {
    "etc/hostname": "machine\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 machine\n",
    "etc/network/interfaces.d/eth0": INTERFACE,
}
LABEL = "machine"
SIZE = "16G"
HOME = "/root"
"""Of root in the machine."""
CHECKOUT = f"{HOME}/cede"
CACHE = f"{HOME}/.cache/cede"


@dataclass(frozen=True, slots=True)
class Disk:
    image: Path
    # with the root folder of Debian, and the keys of ssh
    debian: Path

    @property
    def kernel(self) -> Path:
        return newest(self.debian / "root/boot", "vmlinuz-*")

    @property
    def initrd(self) -> Path:
        return newest(self.debian / "root/boot", "initrd.img-*")

    @property
    def key(self) -> Path:
        return self.debian / "key"

    @property
    def console(self) -> Path:
        """What the machine prints, until another one is started."""
        return self.debian / "console.log"


def newest(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[-1]


def digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def make(paths: Paths, keys: Mapping[str, str]) -> Disk:
    """The disk with the images of these keys; those of other digests are removed."""
    home = paths.cache / "machine"
    home.mkdir(parents=True, exist_ok=True)
    debian = home / f"debian-{digest(images.DEBIAN, SIZE, *PACKAGES, *FILES.values())}"
    go_version, go_root = run_command("go", "env", "GOVERSION", "GOROOT").split()
    environment = (Path(sys.prefix) / "cede-stamp").read_text()
    content = (debian.name, binaries.key(), go_version, environment, *sorted(keys.values()))
    disk = Disk(home / f"disk-{digest(*content)}.img", debian)
    remove_others(home, disk)
    if not debian.exists():
        report_progress("installing Debian, which takes minutes")
        with stage("Debian installed into a folder"):
            install_debian(debian)
    if not disk.image.exists():
        report_progress("writing the disk, which takes minutes")
        with stage("disk made of it, and of the cache"):
            write_image(paths, disk, Path(go_root))
    return disk


def remove_others(home: Path, disk: Disk) -> None:
    """Also what was interrupted."""
    for path in home.iterdir():
        if path.name.startswith("debian-") and path != disk.debian:
            shutil.rmtree(path)
        if path.name.startswith("disk-") and path != disk.image:
            path.unlink()


def install_debian(debian: Path) -> None:
    unfinished = debian.with_suffix(".new")
    root = unfinished / "root"
    root.mkdir(parents=True)
    debootstrap = (*images.DEBOOTSTRAP, f"--include={','.join(PACKAGES)}", images.DEBIAN, root)
    run_command(*in_private_namespaces(*debootstrap, pids=True))
    shutil.rmtree(root / "var/cache/apt/archives")
    set_up(unfinished)
    unfinished.rename(debian)


def set_up(debian: Path) -> None:
    """Network, Go, and the keys of ssh."""
    root = debian / "root"
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / "usr/local/bin/go").symlink_to("../go/bin/go")
    key = debian / "key"
    run_command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(key.with_suffix(".pub"), root / "root/.ssh/authorized_keys")
    host_key = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
    (debian / "known_hosts").write_text(f"machine {host_key}")


def write_image(paths: Paths, disk: Disk, go_root: Path) -> None:
    """The folders are mounted, so nothing is copied twice and no mount is left."""
    root = disk.debian / "root"
    folders = {
        Path(sys.prefix): f"{CHECKOUT}/.venv",
        go_root: "/usr/local/go",
        paths.bin: f"{CACHE}/bin",
        paths.cache / "uv": f"{CACHE}/uv",
        paths.images / "store": f"{CACHE}/images/store",
    }
    mounts = ""
    for source, target in folders.items():
        place = root / target.removeprefix("/")
        place.mkdir(parents=True, exist_ok=True)
        mounts += f"mount --bind {shlex.quote(str(source))} {shlex.quote(str(place))}\n"
    for image in images.IMAGES:
        record = store.archive(paths, image.name).with_suffix(".key")
        shutil.copy(record, root / f"{CACHE}/images/{record.name}".removeprefix("/"))
    unfinished = disk.image.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    words = ("mkfs.ext4", "-q", "-L", LABEL, "-d", str(root), str(unfinished), SIZE)
    script = f"{mounts}exec {shlex.join(words)}\n"
    run_command(*in_private_namespaces("sh", "-ec", script, pids=True))
    unfinished.rename(disk.image)
