"""How `make test-machine` starts QEMU, and what it leaves; a script stands for QEMU."""

import os
from pathlib import Path

import pytest

from deploy.local.paths import Failure
from tests.machine import virtual_machine
from tests.machine.disk import Disk
from tests.machine.virtual_machine import EMULATION, KVM, qemu_command, running, ssh_command

EMULATED_ONLY = 'case "$*" in *tcg*) echo "systemd[1]: here"; exec sleep 60 ;; esac; echo broken'
NEVER = "echo no kernel"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    boot = tmp_path / "root" / "boot"
    boot.mkdir(parents=True)
    for name in ("vmlinuz-6.1", "initrd.img-6.1"):
        (boot / name).touch()
    return Disk(tmp_path / "disk.img", tmp_path)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH; this machine seems to have KVM."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr("os.access", lambda name, mode: True)
    monkeypatch.setattr(virtual_machine, "POLL_INTERVAL_S", 0.01)
    return folder


def write_qemu(folder: Path, script: str) -> None:
    program = folder / "qemu-system-x86_64"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_kernel_that_does_not_start_with_kvm_is_emulated(
    disk: Disk, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_qemu(path, EMULATED_ONLY)
    with running(disk, 2222) as process:
        assert process.poll() is None
    assert process.poll() is not None, "it ends with the context"
    lines = capsys.readouterr().err
    assert "Debian does not start with the KVM of this machine" in lines
    assert "emulation, 30 to 80 times slower" in lines


def test_a_kernel_that_never_starts_is_reported_with_the_console(disk: Disk, path: Path) -> None:
    write_qemu(path, NEVER)
    with pytest.raises(Failure, match=r"console\.log: no kernel"), running(disk, 2222):
        pass


@pytest.mark.parametrize("processor", [KVM, EMULATION], ids=lambda processor: str(processor.name))
def test_the_machine_reaches_no_network_and_changes_no_file(
    disk: Disk, processor: virtual_machine.Processor
) -> None:
    words = " ".join(qemu_command(disk, 2222, processor))
    assert "restrict=on" in words
    assert "hostfwd=tcp:127.0.0.1:2222-:22" in words
    assert "snapshot=on" in words


def test_the_clock_of_an_emulated_machine_is_as_slow_as_its_processor() -> None:
    assert "-icount" in EMULATION.flags
    assert "-icount" not in KVM.flags


def test_ssh_knows_the_machine_by_its_key_and_asks_nobody(disk: Disk) -> None:
    words = " ".join(ssh_command(disk, 2222))
    assert "StrictHostKeyChecking=yes" in words
    assert f"UserKnownHostsFile={disk.debian}/known_hosts" in words
    assert "BatchMode=yes" in words
