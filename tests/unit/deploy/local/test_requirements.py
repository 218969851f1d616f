"""What a machine must have for the local cluster."""

import ctypes
import os
from pathlib import Path

import pytest

from deploy.local import requirements


@pytest.fixture
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the machine's limit of inotify instances."""
    file = tmp_path / "max_user_instances"
    monkeypatch.setattr(requirements, "INOTIFY_LIMIT", file)
    monkeypatch.setattr(requirements, "inotify_instances", lambda: 70)
    return file


def test_too_few_inotify_instances_are_named_with_the_cure(limit: Path) -> None:
    limit.write_text("128\n")
    assert requirements.inotify_shortage() == (
        "root uses 70 of 128 inotify instances, and the cluster needs 64: "
        "`sysctl -w fs.inotify.max_user_instances=512`"
    )


def test_enough_inotify_instances_are_no_shortage(limit: Path) -> None:
    limit.write_text("134\n")
    assert requirements.inotify_shortage() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="counts those of root")
def test_an_inotify_instance_is_counted_while_it_is_open() -> None:
    before = own_instances()
    instance = ctypes.CDLL(None).inotify_init()
    try:
        assert own_instances() == before + 1
        assert requirements.inotify_instances() >= before + 1, "this process is one of root's"
    finally:
        os.close(instance)


def own_instances() -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(os.path.islink(link) and "inotify" in os.readlink(link) for link in links)
