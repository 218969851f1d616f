"""One process changes the local cluster at a time."""

import threading
from pathlib import Path

import pytest

from deploy.local.cluster import exclusive
from deploy.local.paths import Paths


def test_who_waits_for_the_lock_says_so_and_goes_on_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(tmp_path)
    lines: list[str] = []
    waits, entered = threading.Event(), threading.Event()

    def report(line: str) -> None:
        lines.append(line)
        waits.set()

    monkeypatch.setattr("deploy.local.cluster.report_progress", report)

    def enter() -> None:
        with exclusive(paths):
            entered.set()

    waiting = threading.Thread(target=enter)
    with exclusive(paths):
        assert not lines
        waiting.start()
        assert waits.wait(10)
        assert not entered.is_set()
    waiting.join(10)
    assert entered.is_set()
    assert lines == [f"waiting for another process, which has locked {tmp_path / 'lock'}"]
