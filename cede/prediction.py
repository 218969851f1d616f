"""Runs the program `whatif`, which predicts what would happen to whom. It has the controllers' own
decisions, which are no packages of the command (docs/decisions/0019)."""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "whatif"
FOLDERS = (Path(__file__).parent / "programs", Path(__file__).parents[1])
"""Where it is: in the wheel, and in a checkout."""
START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""`python -m` would look for the program in the current folder first, which may be anybody's."""
NOT_HERE = (
    "the program that answers is not installed here: install Cede's own wheel with its extra "
    "[cli], or run this command in a checkout of Cede"
)


@dataclass(frozen=True)
class Prediction:
    """What the program printed, and its exit code: 0, 1 for no answer or a Job that would be
    refused, 2 for bad input."""

    code: int
    text: str
    # where errors were asked for
    errors: str = ""


def is_installed() -> bool:
    """Whether Cede's own program is here: others may have one of its name."""
    return _folder() is not None


def _folder() -> Path | None:
    here = (folder for folder in FOLDERS if (folder / PROGRAM / "submission.py").is_file())
    return next(here, None)


async def predict(
    question: str,
    options: Mapping[str, str | None],
    words: Sequence[str] = (),
    *,
    manifest: bytes | None = None,
    open_files: Sequence[int] = (),
) -> Prediction:
    """Options that are None are left out. `manifest` is what the program reads as `-`; with it, its
    errors are not printed but returned. It inherits `open_files`, and ends when this call is
    cancelled."""
    place = _folder()
    if place is None:
        return Prediction(2, "", NOT_HERE)
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    python = (sys.executable, "-P", "-c", START, str(place), PROGRAM)
    pipe = None if manifest is None else asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        # a name that begins with a hyphen is no option
        *(*python, question, *given, *(["--", *words] if words else [])),
        stdin=pipe,
        stdout=asyncio.subprocess.PIPE,
        stderr=pipe,
        pass_fds=open_files,
    )
    try:
        printed, errors = await process.communicate(manifest)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # negative if a signal ended it
    code = 1 if process.returncode is None or process.returncode < 0 else process.returncode
    return Prediction(code, printed.decode(), (errors or b"").decode())


@contextmanager
def in_memory(content: bytes) -> Iterator[int]:
    """The descriptor of a file that is on no disk. Its path for a process that inherits it is
    `path_of(descriptor)`."""
    descriptor = os.memfd_create("cede")
    try:
        os.write(descriptor, content)
        yield descriptor
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
