"""The picture of the page shows a take-back that is under way."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from deploy.demo.browser import Browser
from deploy.demo.camera import Camera, photograph


class FakeBrowser:
    """`states`: whether a take-back is under way, each time somebody looks."""

    def __init__(self, *states: bool) -> None:
        self.states = list(states)
        self.pictures = 0
        self.opened = ""

    async def send(self, *_: object, **__: object) -> None: ...

    async def resize(self, *_: int) -> None: ...

    async def open(self, address: str) -> None:
        self.opened = address

    async def evaluate(self, _: str) -> Any:
        return self.states.pop(0)

    async def screenshot(self) -> bytes:
        self.pictures += 1
        return b"%d" % self.pictures


@pytest.mark.parametrize(
    ("states", "picture"),
    [
        pytest.param((True, True), b"1", id="one that is under way"),
        pytest.param((False, True, True), b"1", id="waits for one"),
        pytest.param((True, False, True, True), b"2", id="not one that ended meanwhile"),
    ],
)
async def test_a_picture_is_taken_while_a_take_back_runs(
    states: tuple[bool, ...], picture: bytes
) -> None:
    browser = FakeBrowser(*states)
    assert await photograph(cast(Browser, browser), "http://page") == picture
    assert (browser.opened, browser.states) == ("http://page", [])


async def camera_with(program: str, file: Path) -> tuple[str, list[str]]:
    """What is said at the end about the picture of a process that runs this, and the errors of the
    page."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(file)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    taking = Camera(process, file)
    return await taking.outcome(), taking.errors


async def test_at_the_end_it_says_whether_there_is_a_picture(tmp_path: Path) -> None:
    file = tmp_path / "demo-page.png"
    waits = "print(flush=True); import time; time.sleep(600)"
    none = "There is no picture of the page: Chromium saw no take-back on it."
    assert await camera_with(waits, file) == (none, [])
    takes = "import sys; open(sys.argv[1], 'w').close(); print(flush=True)"
    taken = "demo-page.png shows the page during a take-back."
    assert await camera_with(takes, file) == (taken, [])
    errs = "import sys; open(sys.argv[1], 'w').close(); print('up\\na is null', flush=True)"
    assert await camera_with(errs, file) == (taken, ["a is null"])
