"""A virtual machine that QEMU runs, on a disk whose changes it forgets, and that ssh reaches."""

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.paths import Failure
from deploy.local.shell import last_lines, report_progress, stage, wait_until
from tests.harness.local_job import free_port
from tests.machine.disk import LABEL, Disk

MEMORY_MIB = 6144
KERNEL_ARGUMENTS = f"root=LABEL={LABEL} rw console=ttyS0 net.ifnames=0 mitigations=off panic=-1"
SYSTEMD = b"systemd[1]:"
"""What systemd's lines on the console begin with."""
POLL_INTERVAL_S = 0.5
# a machine that is emulated beside other work is slow
ANSWER_S = 3600
PROBE_S = 300


@dataclass(frozen=True, slots=True)
class Processor:
    """What runs the machine's instructions."""

    name: str
    flags: tuple[str, ...]
    cores: int
    # until systemd runs
    start_s: float


KVM = Processor("KVM", ("-accel", "kvm", "-cpu", "host"), 2, 30)
# The clock of the machine counts its instructions, a nanosecond for each. So to the programs inside
# it is a slow machine and not a stopped one, however busy ours is: none of their timeouts is ours.
# With a second core it does not start.
EMULATION = Processor(
    "emulation, 30 to 80 times slower",
    ("-accel", "tcg,tb-size=512", "-icount", "shift=0,sleep=on", "-cpu", "max,la57=off"),
    1,
    3600,
)


@dataclass(frozen=True, slots=True)
class Machine:
    ssh: tuple[str, ...]

    def run(self, command: str, timeout_s: float) -> int:
        """Reports each line that the command prints; returns its exit code. Raises Failure if it
        does not end."""
        process = subprocess.Popen(
            [*self.ssh, command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        end = time.monotonic() + timeout_s
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            assert process.stdout
            for line in process.stdout:
                report_progress(line.rstrip())
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
        if time.monotonic() > end:
            raise Failure(f"`{command}` did not end within {timeout_s / 60:.0f} minutes")
        return code

    def send(self, tree: Path, files: Sequence[str], target: str) -> None:
        """Copies files of a folder, with their modes, into a folder of the machine."""
        pack = shlex.join(["tar", "-C", str(tree), "--owner=0", "--group=0", "-T", "-", "-cz"])
        unpack = shlex.join([*self.ssh, f"mkdir -p {target} && tar -C {target} -xz"])
        pipe = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{pack} | {unpack}"],
            input="\n".join(files),
            text=True,
            capture_output=True,
            check=False,
        )
        if pipe.returncode:
            raise Failure(f"the repository was not sent to the machine: {last_lines(pipe.stderr)}")

    def answers(self) -> bool:
        try:
            subprocess.run([*self.ssh, "true"], capture_output=True, timeout=PROBE_S, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False
        return True


@contextmanager
def booted(disk: Disk) -> Iterator[Machine]:
    """With KVM where Debian starts under it, else emulated. It is gone afterwards."""
    port = free_port()
    with running(disk, port) as process:
        machine = Machine(ssh_command(disk, port))
        report_progress(f"to look into it: {shlex.join(machine.ssh)}")
        with stage("ssh answers"):
            wait_until(
                lambda: is_alive(process, disk) and machine.answers(), "ssh", ANSWER_S, interval_s=2
            )
        yield machine


@contextmanager
def running(disk: Disk, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A machine with systemd as its first process. Raises Failure if it does not get there."""
    if os.access("/dev/kvm", os.R_OK | os.W_OK):
        with process_of(disk, port, KVM) as process:
            if starts(process, disk, KVM):
                yield process
                return
        report_progress("Debian does not start with the KVM of this machine")
    with process_of(disk, port, EMULATION) as process:
        if not starts(process, disk, EMULATION):
            raise Failure(f"Debian does not start, see {disk.console}: {tail(disk)}")
        yield process


@contextmanager
def process_of(disk: Disk, port: int, processor: Processor) -> Iterator[subprocess.Popen[bytes]]:
    """QEMU, which ends with the context, or with this process."""
    report_progress(f"machine switched on: {processor.name}")
    disk.console.unlink(missing_ok=True)
    with open(disk.console, "wb") as log:
        command = ("setpriv", "--pdeathsig", "KILL", *qemu_command(disk, port, processor))
        # not a signal that the terminal sends to all of its processes
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def qemu_command(disk: Disk, port: int, processor: Processor) -> list[str]:
    """Its console is QEMU's standard output. It reaches no network, and changes no file."""
    return [
        "qemu-system-x86_64",
        *("-machine", "q35", *processor.flags),
        *("-smp", str(processor.cores), "-m", str(MEMORY_MIB)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-kernel", str(disk.kernel), "-initrd", str(disk.initrd), "-append", KERNEL_ARGUMENTS),
        *("-drive", f"file={disk.image},if=virtio,format=raw,cache=unsafe,snapshot=on"),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", "virtio-net-pci,netdev=net"),
    ]


def starts(process: subprocess.Popen[bytes], disk: Disk, processor: Processor) -> bool:
    """Whether systemd runs within the time of the processor."""
    began = time.monotonic()
    while SYSTEMD not in disk.console.read_bytes():
        if process.poll() is not None or time.monotonic() > began + processor.start_s:
            return False
        time.sleep(POLL_INTERVAL_S)
    report_progress(f"systemd runs ({time.monotonic() - began:.1f} s)")
    return True


def is_alive(process: subprocess.Popen[bytes], disk: Disk) -> bool:
    """True. Raises Failure if the machine has ended."""
    if process.poll() is None:
        return True
    raise Failure(f"the machine ended, see {disk.console}: {tail(disk)}")


def tail(disk: Disk) -> str:
    return last_lines(disk.console.read_text(errors="replace"))


def ssh_command(disk: Disk, port: int) -> tuple[str, ...]:
    options = {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "HostKeyAlias": "machine",
        "UserKnownHostsFile": str(disk.debian / "known_hosts"),
        "StrictHostKeyChecking": "yes",
        "ServerAliveInterval": "60",
        "ServerAliveCountMax": "30",
        "LogLevel": "ERROR",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ("ssh", "-F", "none", "-i", str(disk.key), "-p", str(port), *words, "root@127.0.0.1")
