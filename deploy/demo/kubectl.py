"""kubectl, as a user would type it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deploy.demo.figures import Line


class Failed(Exception):
    """A kubectl command failed; the message is the command and what it said."""


def reading(files: str) -> tuple[str, ...]:
    """The command that prints files one after the other, none glued to the next; nothing where
    there are none."""
    return "sh", "-c", f'for file in {files}; do [ ! -f "$file" ] || {{ cat "$file"; echo; }}; done'


def parsed(text: str) -> list[Line]:
    """JSON lines as values; a line that was cut off is left out, and so counts as lost."""
    found = []
    for line in text.splitlines():
        with suppress(json.JSONDecodeError):
            if line.startswith("{"):
                found.append(json.loads(line))
    return found


@dataclass(frozen=True, slots=True)
class Kubectl:
    binary: str
    kubeconfig: str

    async def start(self, *args: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        env = {**os.environ, "KUBECONFIG": self.kubeconfig}
        return await asyncio.create_subprocess_exec(
            self.binary, *args, stdout=pipe, stderr=pipe, env=env, limit=1 << 24
        )

    async def __call__(self, *args: str) -> str:
        process = await self.start(*args)
        out, err = await process.communicate()
        if process.returncode:
            raise Failed(f"kubectl {' '.join(args)}: {err.decode().strip()}")
        return out.decode()

    async def json(self, *args: str) -> Any:
        return json.loads(await self(*args, "-o", "json"))

    async def lines(self, namespace: str, pod: str, files: str) -> list[Line]:
        """The lines of files in a pod."""
        return parsed(await self("exec", "-n", namespace, pod, "--", *reading(files)))

    async def follow(self, namespace: str, pod: str, path: str) -> AsyncIterator[Line]:
        """The lines of a file in a pod, and those that come, until the pod goes."""
        process = await self.start(
            "exec", "-n", namespace, pod, "--", "tail", "-n", "+1", "-F", path
        )
        assert process.stdout
        try:
            async for line in process.stdout:
                if line.startswith(b"{") and line.endswith(b"\n"):
                    yield json.loads(line)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
