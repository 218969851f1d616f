"""Runs kubectl as a user would."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deploy.demo.record import Line

MAX_LINE_BYTES = 1 << 24


class KubectlFailed(Exception):
    """A kubectl command failed; the message is the command and its error."""


def print_files(files: str) -> tuple[str, ...]:
    """The command that prints files, each from a new line; `files` may be a pattern."""
    loop = f'for file in {files}; do [ ! -f "$file" ] || {{ cat "$file"; echo; }}; done'
    return "sh", "-c", loop


def parse_lines(text: str) -> list[Line]:
    """The values of JSON lines. A line that was cut off is left out, and so counts as lost."""
    lines = []
    for line in text.splitlines():
        with suppress(json.JSONDecodeError):
            if line.startswith("{"):
                lines.append(json.loads(line))
    return lines


@dataclass(frozen=True, slots=True)
class Kubectl:
    binary: str
    kubeconfig: str

    async def start(self, *args: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        env = {**os.environ, "KUBECONFIG": self.kubeconfig}
        return await asyncio.create_subprocess_exec(
            self.binary, *args, stdout=pipe, stderr=pipe, env=env, limit=MAX_LINE_BYTES
        )

    async def __call__(self, *args: str) -> str:
        """What the command prints. Raises KubectlFailed."""
        process = await self.start(*args)
        output, errors = await process.communicate()
        if process.returncode:
            raise KubectlFailed(f"kubectl {' '.join(args)}: {errors.decode().strip()}")
        return output.decode()

    async def json(self, *args: str) -> Any:
        return json.loads(await self(*args, "-o", "json"))

    async def read_lines(self, namespace: str, pod: str, files: str) -> list[Line]:
        """The lines of files in a pod."""
        return parse_lines(await self("exec", "-n", namespace, pod, "--", *print_files(files)))

    async def follow(self, namespace: str, pod: str, path: str) -> AsyncIterator[Line]:
        """The lines of a file in a pod, also those to come, until the pod ends."""
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
