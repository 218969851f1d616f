"""The page of `cede dashboard` beside the demo. It stays after it: `python -m deploy.demo.page`
ends that of the kubeconfig that is named."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from deploy.local.paths import TREE

STARTED_WITHIN_S = 15.0
WORDS = ("-m", "cede.cli", "dashboard")
"""Of its command, by which it is known."""


class NoPage(Exception):
    """Why there is none, in one line."""


@dataclass(frozen=True)
class Page:
    address: str
    process: subprocess.Popen[str]


def start(kubeconfig: str, within_s: float = STARTED_WITHIN_S) -> Page:
    """A page that runs until `stop`. That of an earlier demo ends before. Raises NoPage."""
    stop(kubeconfig)
    process = subprocess.Popen(
        [sys.executable, *WORDS, "--no-browser", "-o", "json", "--kubeconfig", kubeconfig],
        cwd=TREE,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in the demo is not for the page
        start_new_session=True,
    )
    pid_file(kubeconfig).write_text(f"{process.pid}\n")
    too_late = Timer(within_s, process.kill)
    too_late.start()
    try:
        return Page(_address(process), process)
    finally:
        too_late.cancel()


def _address(process: subprocess.Popen[str]) -> str:
    """What it prints first."""
    assert process.stdout is not None
    with process.stdout as lines:
        text = ""
        for line in lines:
            text += line
            with suppress(ValueError):
                return str(json.loads(text)["address"])
    process.wait()
    raise NoPage(
        "`cede dashboard` has ended, or did not start in time; run it with the kubeconfig of the "
        "demo to see why"
    )


def stop(kubeconfig: str) -> bool:
    """Ends the page of an earlier demo. False: there is none."""
    file = pid_file(kubeconfig)
    try:
        pid = int(file.read_text())
    except (OSError, ValueError):
        return False
    file.unlink(missing_ok=True)
    command = _command_of(pid)
    # the number may be another process's by now
    if " ".join(WORDS) not in command or kubeconfig not in command:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return True


def pid_file(kubeconfig: str) -> Path:
    return Path(kubeconfig).with_suffix(".page")


def _command_of(pid: int) -> str:
    command = ["ps", "-o", "args=", "-ww", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    stop(sys.argv[1])
