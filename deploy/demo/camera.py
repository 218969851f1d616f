"""Takes a picture of the page while a take-back is under way: a process of its own, so that it
delays nothing that the demo measures. The address comes by standard input: it holds a token."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from deploy.demo.browser import Browser, chromium_running, new_page
from deploy.local.paths import TREE

SIZE = (1280, 1000)
POLL_S = 0.1
END_S = 10.0
LEAST_URGENT = 19
UNDER_WAY = (
    "[...document.querySelectorAll('#takes .state')]"
    ".some((state) => ['Pending', 'Asked', 'Released'].includes(state.textContent))"
)
NO_BROWSER = (
    "There is no picture of the page, because Chromium is not here: `make setup-browser` "
    "installs it for the next demo."
)


class Camera:
    """A process that waits for a take-back."""

    def __init__(self, process: asyncio.subprocess.Process, file: Path) -> None:
        self._process = process
        self._file = file
        self.errors: list[str] = []
        """What Chromium reported of the page until the picture; known after `outcome`."""

    async def outcome(self) -> str:
        """Waits no longer than it takes to end: a sentence about the picture."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._process.stdout is not None:
            self.errors += (await self._process.stdout.read()).decode().splitlines()
        if self._file.exists():
            return f"{self._file.name} shows the page during a take-back."
        return "There is no picture of the page: Chromium saw no take-back on it."


@asynccontextmanager
async def camera(address: str, file: Path) -> AsyncIterator[Camera]:
    """Waits from now on for a take-back on the page, and then writes the file."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deploy.demo.camera", str(file)),
        cwd=TREE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(f"{address}\n".encode())
    process.stdin.close()
    taking = Camera(process, file)
    try:
        yield taking
    finally:
        await taking.outcome()


async def photograph(page: Browser, address: str) -> bytes:
    """The page as PNG, once a take-back is under way on it."""
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    await page.send("Emulation.setEmulatedMedia", features=features)
    await page.resize(*SIZE)
    await page.open(address)
    while True:
        # the browser tells nothing by itself
        while not await page.evaluate(UNDER_WAY):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        picture = await page.screenshot()
        # else it has ended meanwhile
        if await page.evaluate(UNDER_WAY):
            return picture


async def wait_for_picture(address: str) -> tuple[bytes, list[str]]:
    """The picture, and what Chromium reported of the page until then."""
    with chromium_running() as devtools:
        async with new_page(devtools) as page:
            return await photograph(page, address), page.errors


def main(file: Path) -> None:
    """Writes the file, and prints each error of the page in a line."""
    picture, errors = asyncio.run(wait_for_picture(sys.stdin.readline().strip()))
    file.write_bytes(picture)
    for error in errors:
        print(" ".join(error.split()))


if __name__ == "__main__":
    os.nice(LEAST_URGENT)
    with suppress(KeyboardInterrupt):
        main(Path(sys.argv[1]))
