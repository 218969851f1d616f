"""A directory that can never be written is refused; one that fails for a while is not."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.directory_checks import REFUSALS, refusal_mistakes
from tests.builders.sessions import small_session

MAY_END = (errno.ENOSPC, errno.EIO, errno.ESTALE, errno.EDQUOT, errno.ENOENT, errno.ETIMEDOUT)


def fail_with(monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    """From now on the system answers a call of this kind with an error."""

    def fail(*_: Any, **__: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)


def test_a_directory_that_may_not_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_session(checkpoint=tmp_path / "new" / "save")
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ValueError, match=f"may not write to {tmp_path}: change its owner"):
        small_session(checkpoint=tmp_path / "new" / "save")


@pytest.mark.parametrize("call", ["open", "close", "unlink"])
@pytest.mark.parametrize("code", REFUSALS, ids=errno.errorcode.__getitem__)
def test_a_file_system_that_refuses_a_file_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    with monkeypatch.context() as patched:
        fail_with(patched, call, code)
        messages = [*refusal_mistakes("checkpoint", tmp_path / "new" / "save")]
    assert messages == [
        f"checkpoint is {tmp_path}/new/save, but no file can be created and removed in {tmp_path} "
        f"({os.strerror(code)}): mount it without readOnly, let the user of this process write "
        "there, or give another directory"
    ]


@pytest.mark.parametrize("code", MAY_END, ids=errno.errorcode.__getitem__)
def test_an_error_that_may_end_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with monkeypatch.context() as patched:
        fail_with(patched, "open", code)
        assert not [*refusal_mistakes("checkpoint", tmp_path)]


def test_root_too_is_refused_what_the_system_refuses() -> None:
    """No process can create a file there, though `os.access` may say that root can."""
    [message] = refusal_mistakes("checkpoint", Path("/sys/save"))
    assert "no file can be created and removed in /sys (" in message


def test_what_was_created_to_see_is_removed(tmp_path: Path) -> None:
    assert not [*refusal_mistakes("checkpoint", tmp_path / "new" / "save")]
    assert not [*tmp_path.iterdir()]
