"""`cede release` and `cede uninstall`: return to Kueue's own preemption."""

from collections.abc import Awaitable, Callable

from cede import release as steps
from cede.commands.command import DONE, CommandFailed, Options
from cede.commands.connection import connected
from cede.commands.output import show
from cede.kube.client import Client


async def release(chosen: Options) -> int:
    """Enable Kueue's own preemption and stop Cede's; running jobs are not touched."""
    return await _change(chosen, steps.release)


async def uninstall(chosen: Options) -> int:
    """Release, stop Cede's components and remove its finalizers.

    Its manifests can be deleted afterwards. Running jobs are not touched.
    """
    return await _change(chosen, steps.uninstall)


async def _change(chosen: Options, change: Callable[[Client], Awaitable[steps.Outcome]]) -> int:
    async with connected(chosen) as client:
        done, failed = await change(client)
    show(chosen, {"done": done, "failed": failed}, done or ["nothing in this cluster is Cede's"])
    if failed:
        raise CommandFailed(f"some steps failed, run the command again: {'; '.join(failed)}")
    return DONE
