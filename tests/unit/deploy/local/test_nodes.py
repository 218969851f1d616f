"""Images are loaded into nodes that run."""

from pathlib import Path

import pytest

from deploy.local import network_namespaces, nodes
from deploy.local.paths import Failure, Paths


@pytest.mark.parametrize(
    ("failures", "is_loaded"),
    [
        pytest.param(0, True, id="at once"),
        pytest.param(1, True, id="at the second time: containerd had collected a layer"),
        pytest.param(2, False, id="not at all"),
    ],
)
def test_an_import_that_fails_is_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, is_loaded: bool
) -> None:
    left = [Failure("parent snapshot does not exist")] * failures

    def run_command(*words: object) -> str:
        if "import" in words and left:
            raise left.pop()
        return ""

    paths = Paths(tmp_path)
    record = nodes.image_record(paths, "n1")
    record.parent.mkdir(parents=True)
    monkeypatch.setattr(network_namespaces, "require_pid", lambda *_: 1)
    monkeypatch.setattr(nodes, "run_command", run_command)
    try:
        nodes.load_images(paths, "n1", {"docker.io/library/cede:dev": "key"})
    except Failure:
        assert not is_loaded
    assert record.exists() == is_loaded
