"""python -m tests.machine: tries the local cluster on an ordinary Debian 12, in a virtual machine.

The machine has systemd, cgroup v2 and AppArmor, reaches no network, and forgets everything. Inside,
tests/machine/checks.py starts the cluster, trains, takes back and stops it. As root.
"""

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence

from deploy.local import binaries, cluster, images, requirements
from deploy.local.paths import Failure, Paths
from deploy.local.shell import report_progress, stage
from tests.laws.sources import tracked
from tests.machine import disk
from tests.machine.virtual_machine import booted
from tests.paths import TREE

PROGRAMS = ("qemu-system-x86_64", "mkfs.ext4", "ssh")
PREPARE_S = 1800
PREPARE = "cd {checkout} && rm -f .venv/bin/python* && python3 -m venv --without-pip .venv"
"""The environment gets the machine's own Python."""
CHECK = "cd {checkout} && .venv/bin/python -m tests.machine.checks"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=480,
        help="give up if the checks take longer (default 480, for a machine that is emulated)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    # what is open is closed
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        try_machine(make_disk(Paths.of_user()), 60 * args.minutes)
    except (Failure, OSError) as failure:
        print(f"test-machine: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def make_disk(paths: Paths) -> disk.Disk:
    """With programs and images of this repository, so that nothing is fetched inside."""
    if missing := requirements.missing(paths):
        raise Failure(missing)
    for program in PROGRAMS:
        if not shutil.which(program):
            raise Failure(f"{program} is not installed: run deploy/local/setup.sh machine")
    with cluster.exclusive(paths):
        binaries.build(paths)
        keys = images.update(paths)
    # The cluster may go on beside what takes minutes. If images are replaced meanwhile, the disk
    # is not made, and the next run begins again.
    return disk.make(paths, keys)


def try_machine(made: disk.Disk, timeout_s: float) -> None:
    """Raises Failure if something does not hold in it."""
    with booted(made) as machine:
        with stage("repository sent"):
            machine.send(TREE, tracked(), disk.CHECKOUT)
        if machine.run(PREPARE.format(checkout=disk.CHECKOUT), PREPARE_S):
            raise Failure("the environment of the machine was not made")
        if code := machine.run(CHECK.format(checkout=disk.CHECKOUT), timeout_s):
            raise Failure(f"the checks inside ended with exit code {code}")
    report_progress("all holds on an ordinary Debian 12")


if __name__ == "__main__":
    sys.exit(main())
