"""The stacks of a worker with native frames, where py-spy is installed."""

import asyncio
import shutil

PY_SPY_TIMEOUT_S = 1.0


async def py_spy_dump(pid: int) -> str:
    """The stacks with native frames, by py-spy; empty where py-spy is not installed."""
    if not shutil.which("py-spy"):
        return ""
    try:
        spy = await asyncio.create_subprocess_exec(
            "py-spy",
            "dump",
            "--nonblocking",
            "--native",
            "--pid",
            str(pid),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(PY_SPY_TIMEOUT_S):
            return (await spy.communicate())[0].decode(errors="replace")
    except TimeoutError:
        spy.kill()
        await spy.wait()
        return ""
