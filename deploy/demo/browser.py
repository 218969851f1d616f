"""A headless Chromium, driven over its DevTools protocol."""

import asyncio
import base64
import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import IO, Any

import aiohttp

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    "--remote-debugging-port=0",
)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ANSWER_S = 30.0
POLL_MS = 20
MAX_ANSWER_BYTES = 1 << 26


def chromium() -> str:
    """The path of the browser; empty where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), "")


class Navigated(Exception):
    """The page was left before it answered."""


class Browser:
    """One page. Every error that its scripts raise, or that its policy refuses, is in `errors`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.errors: list[str] = []

    async def read(self) -> None:
        async for message in self._socket:
            content = message.json()
            match content.get("method"):
                case "Runtime.exceptionThrown":
                    self.errors.append(str(content["params"]["exceptionDetails"]))
                case "Log.entryAdded" if content["params"]["entry"]["level"] == "error":
                    self.errors.append(content["params"]["entry"]["text"])
                case None:
                    self._answers.pop(content["id"]).set_result(content)

    async def send(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(ANSWER_S):
            content = await self._answers[number]
        if "error" in content:
            raise Navigated(content["error"]["message"])
        return content["result"]

    async def open(self, address: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable")
        await self.send("Page.navigate", url=address)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, which may be a promise."""
        result = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Returns once the expression is true and raises nothing, maybe only after a reload."""
        waiting = (
            "new Promise((resolve) => { const look = () => {"
            f" try {{ if ({expression}) return resolve(); }} catch {{ }}"
            f" setTimeout(look, {POLL_MS}); }}; look(); }})"
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                while True:
                    with suppress(Navigated):
                        await self.evaluate(waiting)
                        return
        except TimeoutError as error:
            raise AssertionError(f"not true: {expression}; errors: {self.errors}") from error

    async def resize(self, width: int, height: int) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    async def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def press(self, key: str, text: str = "") -> None:
        code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
        for type_ in ("keyDown", "keyUp"):
            typed = {"text": text} if text and type_ == "keyDown" else {}
            await self.send(
                "Input.dispatchKeyEvent", type=type_, key=key, windowsVirtualKeyCode=code, **typed
            )

    async def settle(self) -> None:
        """Transitions and animations have ended."""
        await self.evaluate(
            "Promise.allSettled(document.getAnimations().map((moving) => moving.finished))"
        )

    async def screenshot(self) -> bytes:
        """What is seen now, as PNG."""
        shot = await self.send("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])


@contextmanager
def chromium_running() -> Iterator[str]:
    """The address of its DevTools. Its profile is its own."""
    # it may still write into its profile when it is ended
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            yield _address(process.stderr)
        finally:
            process.terminate()
            process.communicate()


def _address(output: IO[bytes]) -> str:
    """It prints the address once it listens."""
    for line in output:
        if address := re.search(rb"DevTools listening on ws://([\d.:]+)/", line):
            return address[1].decode()
    raise AssertionError("the browser ended before it listened")


@asynccontextmanager
async def new_page(address: str) -> AsyncIterator[Browser]:
    """An empty page of the browser with this address, closed at the end."""
    async with aiohttp.ClientSession() as session:
        async with session.put(f"http://{address}/json/new?about:blank") as response:
            target = await response.json()
        async with session.ws_connect(
            target["webSocketDebuggerUrl"], max_msg_size=MAX_ANSWER_BYTES
        ) as socket:
            page = Browser(socket)
            reading = asyncio.create_task(page.read())
            try:
                yield page
            finally:
                reading.cancel()
        async with session.get(f"http://{address}/json/close/{target['id']}") as response:
            await response.read()
