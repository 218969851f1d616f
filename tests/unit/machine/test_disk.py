"""The disk of `make test-machine`: when it is made again, and what of it is removed."""

from pathlib import Path

from deploy.local import requirements
from tests.machine import disk
from tests.machine.disk import Disk, remove_others


def test_the_machine_has_what_the_set_up_asks_for() -> None:
    """And an ordinary machine's kernel, AppArmor and ssh."""
    assert set(requirements.RUNTIME.values()) <= set(disk.PACKAGES)
    assert set(requirements.BUILD.values()) <= set(disk.PACKAGES)
    assert {"apparmor", "linux-image-cloud-amd64", "openssh-server"} <= set(disk.PACKAGES)


def test_a_digest_changes_with_every_part_of_it() -> None:
    digests = {disk.digest(*parts) for parts in [("a", "b"), ("b", "a"), ("ab",), ("a", "b", "c")]}
    assert len(digests) == 4


def test_other_disks_and_what_was_interrupted_are_removed(tmp_path: Path) -> None:
    present = Disk(tmp_path / "disk-2.img", tmp_path / "debian-2")
    for folder in ("debian-1/root", "debian-2/root", "debian-2.new/root"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("disk-1.img", "disk-2.img", "disk-2.new"):
        (tmp_path / file).touch()
    remove_others(tmp_path, present)
    assert {path.name for path in tmp_path.iterdir()} == {"debian-2", "disk-2.img"}


def test_the_newest_kernel_is_started(tmp_path: Path) -> None:
    boot = tmp_path / "root" / "boot"
    boot.mkdir(parents=True)
    for version in ("6.1.0-40", "6.1.0-41"):
        (boot / f"vmlinuz-{version}").touch()
        (boot / f"initrd.img-{version}").touch()
    made = Disk(tmp_path / "disk.img", tmp_path)
    assert made.kernel.name == "vmlinuz-6.1.0-41"
    assert made.initrd.name == "initrd.img-6.1.0-41"
