"""The local cluster says each fact once, and what it decides without a machine is right."""

from pathlib import Path

import pytest
import yaml

from deploy.demo.terminal import bar
from deploy.local import binaries, cgroups, images
from deploy.local.paths import TREE, Failure


def test_kueues_image_has_the_version_of_its_module() -> None:
    found = yaml.safe_load((TREE / "deploy" / "local" / "kueue" / "kustomization.yaml").read_text())
    [image] = found["images"]
    assert f"{image['newName']}:{image['newTag']}" == images.KUEUE
    assert f"v{image['newTag']}" == binaries.version("sigs.k8s.io/kueue")


def test_a_group_hands_down_every_controller_it_has(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    cgroups.enable_controllers(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_a_hierarchy_of_version_1_has_nothing_to_hand_down(tmp_path: Path) -> None:
    cgroups.enable_controllers(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_group_that_stays_busy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.procs").write_text("17\n")
    monkeypatch.setattr("os.rmdir", busy)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(Failure, match=r"still in use: \['17'\]"):
        cgroups._remove(tmp_path)


def busy(path: object) -> None:
    raise OSError(16, "busy")


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({}, "········"),
        ({"research": 8}, "RRRRRRRR"),
        ({"vision": 2, "research": 4}, "RRRRVV··"),
        ({"research": 9}, "RRRRRRRRR"),
    ],
)
def test_a_bar_has_a_cell_for_each_accelerator(held: dict[str, int], expected: str) -> None:
    assert bar(held, 8, color=False) == expected


def test_an_image_is_built_anew_when_what_it_holds_or_stands_on_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "TREE", tmp_path)
    (tmp_path / "deploy").mkdir()
    for name in (images.DOCKERFILE, f"{images.DOCKERFILE}.dockerignore", "inside"):
        (tmp_path / name).write_text("one")
    image = images.Image("x", "target", ("inside",))
    first = image.key("base")
    on_another = image.key("another base")
    (tmp_path / "inside").write_text("two")
    assert len({first, on_another, image.key("base")}) == 3
