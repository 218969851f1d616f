"""The page beside the demo: it is known again, and only it is ended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.demo import page
from deploy.demo.page import NoPage, pid_file, start, stop

SERVE = (
    "import json, time; "
    "print(json.dumps({'address': 'http://127.0.0.1:1/#token=t'}, indent=2), flush=True); "
    "time.sleep(600)"
)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick program in place of the command."""
    monkeypatch.setattr(page, "WORDS", ("-c", SERVE))


@pytest.mark.usefixtures("program")
def test_it_stays_until_it_is_stopped(tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "admin.conf")
    shown = start(kubeconfig)
    assert shown.address == "http://127.0.0.1:1/#token=t"
    assert shown.process.poll() is None
    assert stop(kubeconfig)
    assert shown.process.wait(20)
    assert not stop(kubeconfig)


@pytest.mark.usefixtures("program")
def test_the_next_demo_ends_the_page_of_the_one_before(tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "admin.conf")
    first, second = start(kubeconfig), start(kubeconfig)
    assert first.process.wait(20)
    assert second.process.poll() is None
    stop(kubeconfig)
    second.process.wait(20)


def test_another_process_that_has_its_number_is_left_alone(tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "admin.conf")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pid_file(kubeconfig).write_text(str(other.pid))
    assert not stop(kubeconfig)
    assert other.poll() is None
    other.communicate(b"\n")


@pytest.mark.parametrize(
    ("text", "within_s"),
    [
        pytest.param("raise SystemExit(1)", 15.0, id="it ends"),
        pytest.param("import time; time.sleep(600)", 0.0, id="it takes too long"),
    ],
)
def test_a_page_that_does_not_start_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, within_s: float
) -> None:
    monkeypatch.setattr(page, "WORDS", ("-c", text))
    with pytest.raises(NoPage, match="has ended, or did not start in time"):
        start(str(tmp_path / "admin.conf"), within_s)


def test_a_number_that_is_none_is_no_page(tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "admin.conf")
    pid_file(kubeconfig).write_text("x")
    assert not stop(kubeconfig)
    assert os.path.exists(pid_file(kubeconfig))
