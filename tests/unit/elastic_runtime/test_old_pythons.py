"""A Python or a system that the runtime cannot run on is named in one line, with the cure."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

import elastic_runtime

SOURCE = Path(elastic_runtime.__file__).read_text()


def test_the_first_file_can_be_parsed_by_older_pythons() -> None:
    ast.parse(SOURCE, feature_version=(3, 7))


STARTS = pytest.mark.parametrize(
    ("first_argument", "error"),
    [
        pytest.param("-m", SystemExit, id="python -m elastic_runtime"),
        pytest.param("train.py", ImportError, id="a script may go on without it"),
    ],
)


def complaint_of_import(error: type[BaseException]) -> str:
    """What the first file says when it ends with this error."""
    names: dict[str, Any] = {"__name__": "elastic_runtime"}
    with pytest.raises(error) as raised:
        exec(compile(SOURCE, "__init__.py", "exec"), names)  # noqa: S102 - elsewhere
    assert "Session" not in names
    return str(raised.value)


@STARTS
def test_an_older_python_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, first_argument: str, error: type[BaseException]
) -> None:
    monkeypatch.setattr(sys, "argv", [first_argument])
    monkeypatch.setattr(sys, "version_info", (3, 8, 18, "final", 0))
    assert complaint_of_import(error) == (
        f"elastic_runtime: this is Python 3.8.18 ({sys.executable}), and Python 3.11 to 3.14 is "
        "needed: use an image that has it, or name its other Python in the command"
    )


@STARTS
def test_windows_is_refused_in_one_line_with_what_is_supported(
    monkeypatch: pytest.MonkeyPatch, first_argument: str, error: type[BaseException]
) -> None:
    monkeypatch.setattr(sys, "argv", [first_argument])
    monkeypatch.setattr(sys, "platform", "win32")
    assert complaint_of_import(error) == (
        "elastic_runtime: Windows is not supported: use Linux, such as in WSL 2 or a container; on "
        "macOS a job of one trains"
    )
