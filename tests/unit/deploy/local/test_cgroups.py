"""The cgroups of the nodes."""

import errno
from pathlib import Path

import pytest

from deploy.local import cgroups
from deploy.local.paths import Failure


def test_a_group_enables_every_controller_for_its_children(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    cgroups.enable_controllers(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_in_a_hierarchy_of_version_1_there_is_nothing_to_enable(tmp_path: Path) -> None:
    cgroups.enable_controllers(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_nodes_have_a_share_of_the_processor_where_the_hierarchy_controls_it(
    tmp_path: Path,
) -> None:
    cgroups.set_share(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "cpu.shares").write_text("1024\n")
    cgroups.set_share(tmp_path)
    assert (tmp_path / "cpu.shares").read_text() == "4096"


def test_a_group_that_stays_busy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.procs").write_text("17\n")
    monkeypatch.setattr("os.rmdir", refuse)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(Failure, match=r"still in use by the processes \['17'\]: stop them"):
        cgroups._remove(tmp_path)


def refuse(path: object) -> None:
    raise OSError(errno.EBUSY, "busy")
