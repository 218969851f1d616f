"""What an agent writes on its console, also one that does not take it."""

import logging
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pytest

from elastic_runtime.agent import console
from elastic_runtime.agent.console import Console, ConsoleHandler

# The number of lines that are missing.
MISSING = console.DROPPED.replace(b"%d", rb"(\d+)")


@dataclass
class Pipe:
    """A console that blocks until somebody reads."""

    write_end: int
    _reader: BinaryIO

    def read_all(self) -> bytes:
        """Until the write end is closed."""
        return self._reader.read()

    def close_read_end(self) -> None:
        self._reader.close()

    def close_write_end(self) -> None:
        os.close(self.write_end)


@contextmanager
def open_pipe() -> Iterator[Pipe]:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as reader:
        yield Pipe(write_end, reader)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with open_pipe() as pipe:
        yield pipe


def test_lines_for_two_streams_keep_their_order(pipe: Pipe) -> None:
    second = os.dup(pipe.write_end)
    console_of_both = Console()
    for number in range(100):
        console_of_both.write((pipe.write_end, second)[number % 2], [b"%02d\n" % number])
    console_of_both.flush()
    os.close(second)
    pipe.close_write_end()
    assert pipe.read_all() == b"".join(b"%02d\n" % number for number in range(100))


def test_lines_that_a_blocked_console_does_not_take_are_counted(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is written in part, and their number stands where they are missing.

    That may be in several places: the console takes what fits into the pipe.
    """
    monkeypatch.setattr(console, "MAX_WAITING_BYTES", 1 << 20)
    line = b"x" * 99 + b"\n"
    blocked = Console()
    for _ in range(300):
        blocked.write(pipe.write_end, [line] * 100)
    with ThreadPoolExecutor(1) as reader:
        # It ends with the pipe.
        everything = reader.submit(pipe.read_all)
        blocked.flush()
        blocked.write(pipe.write_end, [b"after\n"])
        blocked.flush()
        pipe.close_write_end()
        text = everything.result()
    kept = text.count(line)
    missing = [int(count) for count in re.findall(MISSING, text)]
    assert kept
    assert sum(missing) == 30_000 - kept > 0
    rest = re.sub(MISSING, b"", text.replace(line, b""))
    assert rest == b"after\n", "nothing else is written, and no line in part"


def test_the_end_of_an_agent_does_not_wait_for_a_console_that_blocks(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "FLUSH_S", 0.1)
    blocked = Console()
    blocked.write(pipe.write_end, [b"x" * (1 << 20)])
    blocked.flush()
    pipe.close_read_end()
    blocked.flush()
    pipe.close_write_end()


def test_a_console_that_is_gone_costs_only_its_lines(pipe: Pipe) -> None:
    with open_pipe() as gone:
        pass
    console_of_both = Console()
    console_of_both.write(gone.write_end, [b"lost\n"])
    console_of_both.write(pipe.write_end, [b"kept\n"])
    console_of_both.flush()
    gone.close_write_end()
    pipe.close_write_end()
    assert pipe.read_all() == b"kept\n"


def test_the_log_goes_to_stdout_as_lines(capfd: pytest.CaptureFixture[str]) -> None:
    handler = ConsoleHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.handle(logging.makeLogRecord({"levelname": "INFO", "msg": "pod up"}))
    console.CONSOLE.flush()
    assert capfd.readouterr().out == "INFO pod up\n"
