"""The program `whatif` beside this one, and files for it that are on no disk."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from cede import prediction
from cede.prediction import in_memory, is_installed, path_of, predict


def test_the_program_of_this_checkout_is_known() -> None:
    assert is_installed()


def test_somebody_elses_program_of_its_name_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whatif").mkdir()
    (tmp_path / "whatif" / "__init__.py").touch()
    monkeypatch.setattr(prediction, "FOLDERS", (tmp_path,))
    assert not is_installed()


def test_a_file_in_memory_is_read_again_from_its_start() -> None:
    with in_memory(b"text") as descriptor:
        assert [Path(path_of(descriptor)).read_bytes() for _ in range(2)] == [b"text"] * 2
    assert not Path(path_of(descriptor)).exists()


async def test_a_program_that_nobody_waits_for_any_more_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prediction, "START", "import time; time.sleep(600)")
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def note(*words: str, **options: object) -> asyncio.subprocess.Process:
        started.append(await start(*words, **options))  # type: ignore[arg-type]
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", note)
    asking = asyncio.create_task(predict("drain", {}, ["n1"], manifest=b""))
    async with asyncio.timeout(30):
        while not started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    assert started[0].returncode is not None
