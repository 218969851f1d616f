"""The output of workers: in files, and on the console with the worker's name before each line."""

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from elastic_runtime.agent.console import CONSOLE
from elastic_runtime.agent.worker_output import MAX_LINE, OutputStream, open_streams, worker_name
from elastic_runtime.agent.worker_process import spawn
from tests.fakes.agents import pod_settings


@dataclass
class Target:
    """A console of a test: its descriptor, and what was written there."""

    descriptor: int
    _path: Path

    def text(self) -> bytes:
        CONSOLE.flush()
        return self._path.read_bytes()


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Target]:
    with open(tmp_path / "console", "wb", buffering=0) as file:
        yield Target(file.fileno(), tmp_path / "console")
        # The descriptor may be another file's next.
        CONSOLE.flush()


async def copied(stream: OutputStream, *parts: bytes) -> None:
    """`stream` after a process has written these parts and ended."""
    assert stream.descriptor is not None
    writer = os.dup(stream.descriptor)
    stream.release()
    for part in parts:
        os.write(writer, part)
    os.close(writer)
    await stream.copy()


@pytest.mark.parametrize(("ranks", "name"), [(1, "3"), (2, "3.1")])
def test_a_worker_is_named_by_its_pod_and_its_number_if_it_has_one(ranks: int, name: str) -> None:
    assert worker_name(3, 1, ranks) == name


async def test_each_line_on_the_console_has_the_name_and_the_file_has_the_text(
    tmp_path: Path, console: Target
) -> None:
    stream = OutputStream(tmp_path / "1" / "stdout.log", console.descriptor, "[1]: ")
    await copied(stream, b"one\ntw", b"o\n\nno end")
    assert console.text() == b"[1]: one\n[1]: two\n[1]: \n[1]: no end\n"
    assert (tmp_path / "1" / "stdout.log").read_bytes() == b"one\ntwo\n\nno end\n"


async def test_a_line_without_end_does_not_fill_the_memory(console: Target) -> None:
    stream = OutputStream(None, console.descriptor, "")
    await copied(stream, b"x" * (MAX_LINE - 1), b"x")
    assert console.text() == b"x" * MAX_LINE


def test_output_without_options_is_inherited(tmp_path: Path) -> None:
    assert [stream.descriptor for stream in open_streams(pod_settings(), 0)] == [None, None]


async def test_only_the_stream_that_tee_names_is_copied(tmp_path: Path, console: Target) -> None:
    """Both files have the text; the other one is written by the process itself."""
    settings = replace(pod_settings(2), log_dir=tmp_path, tee=2)
    script = "import sys; print('out'); print('err', file=sys.stderr)"
    worker = await spawn(["-c", script], settings, 0, time.monotonic)
    worker.output[1]._console = console.descriptor
    for stream in worker.output:
        await stream.copy()
    assert await worker.process.wait() == 0
    worker.close()
    assert (tmp_path / "2" / "stdout.log").read_text() == "out\n"
    assert (tmp_path / "2" / "stderr.log").read_text() == "err\n"
    assert console.text() == b"[2]: err\n"


async def test_a_worker_that_is_started_again_adds_to_its_file(
    tmp_path: Path, console: Target
) -> None:
    for text in (b"first\n", b"second\n"):
        await copied(OutputStream(tmp_path / "log", console.descriptor, ""), text)
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"


async def test_a_log_that_cannot_be_written_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, console: Target
) -> None:
    (tmp_path / "file").touch()
    assert OutputStream(tmp_path / "file" / "log", None, "").descriptor is None
    # Every write to it fails: no space left on device.
    stream = OutputStream(Path("/dev/full"), console.descriptor, "")
    await copied(stream, b"one\n")
    assert console.text() == b"one\n"
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


async def test_the_file_gets_all_and_the_agent_runs_on_while_the_console_blocks(
    tmp_path: Path,
) -> None:
    read_end, console = os.pipe()
    stream = OutputStream(tmp_path / "log", console, "")
    assert stream.descriptor is not None
    writer = os.dup(stream.descriptor)
    stream.release()
    # More than two pipes hold.
    text = b"a line\n" * 100_000

    def write_all() -> None:
        with open(writer, "wb") as file:
            file.write(text)

    async with asyncio.timeout(60):
        # In the event loop, which would not come back from a console that blocks.
        await asyncio.gather(asyncio.to_thread(write_all), stream.copy())
    assert (tmp_path / "log").read_bytes() == text
    os.close(read_end)
    CONSOLE.flush()
    os.close(console)
