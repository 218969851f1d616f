"""The images of the local cluster: their versions, and when they are built again."""

from pathlib import Path

import pytest
import yaml

from deploy.local import binaries, images
from deploy.local.paths import TREE


def test_kueues_image_has_the_version_of_its_module() -> None:
    text = (TREE / "deploy" / "local" / "kueue" / "kustomization.yaml").read_text()
    [image] = yaml.safe_load(text)["images"]
    assert f"{image['newName']}:{image['newTag']}" == images.KUEUE
    assert f"v{image['newTag']}" == binaries.version("sigs.k8s.io/kueue")


def test_an_image_is_built_again_when_its_content_or_base_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "TREE", tmp_path)
    (tmp_path / "deploy").mkdir()
    for name in (images.DOCKERFILE, f"{images.DOCKERFILE}.dockerignore", "inside"):
        (tmp_path / name).write_text("one")
    image = images.Image("x", "target", ("inside",))
    first = image.key("base")
    other_base = image.key("another base")
    (tmp_path / "inside").write_text("two")
    assert len({first, other_base, image.key("base")}) == 3
