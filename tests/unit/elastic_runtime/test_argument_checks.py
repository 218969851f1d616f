"""A value that an argument cannot have is named in one line, with what to give in its place."""

from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.mistake import Mistake
from tests.builders.sessions import small_session

LEAVE_OUT = "give the path of a directory, or leave the argument out"
MOUNT = "mount it as a directory, and give the path where it is mounted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"checkpoint": ""}, f"checkpoint is '': {LEAVE_OUT}", id="no directory"),
        pytest.param(
            {"checkpoint": "s3://bucket/x"},
            f"checkpoint is 's3://bucket/x': {MOUNT}",
            id="an address",
        ),
        pytest.param(
            {"journal": Path("gs://bucket")}, f"journal is 'gs:/bucket': {MOUNT}", id="as a path"
        ),
        pytest.param(
            {"checkpoint": "save", "local_checkpoint": "~/save", "local_save_every": 1},
            "local_checkpoint is '~/save': only a shell replaces ~, so give "
            "os.path.expanduser('~/save')",
            id="a home directory",
        ),
        pytest.param(
            {"clip": 0},
            "clip is 0: give the norm to which the gradient is clipped, above 0",
            id="a gradient of zeros",
        ),
        pytest.param(
            {"checkpoint": 5}, "checkpoint is 5: give the path of a directory", id="no path"
        ),
    ],
)
def test_a_value_that_a_session_cannot_take_is_reported(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Mistake) as raised:
        small_session(**options)
    assert str(raised.value) == message


@pytest.mark.parametrize("directory", ["new", "./~", "a:b", "run/s3://", Path("new")])
def test_a_directory_that_does_not_exist_yet_is_no_mistake(
    directory: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_session(checkpoint=directory)
