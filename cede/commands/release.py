"""`cede release` and `cede uninstall`: return to Kueue's own preemption."""

from cede.commands.command import DONE, CommandFailed, Options
from cede.commands.connection import connected
from cede.commands.output import show, warn


async def release(chosen: Options) -> int:
    """Enable Kueue's own preemption and stop Cede's; running jobs are not touched.

    Jobs that are stopped may run again. It waits for those that still save.
    """
    # it imports the client, which takes a second
    from cede.release import release

    async with connected(chosen) as client:
        done, failed = await release(client, _tell)
    return _report(chosen, done, failed)


async def uninstall(chosen: Options) -> int:
    """Release, stop Cede's components and remove its finalizers.

    Its manifests can be deleted before or afterwards. Running jobs are not touched.
    """
    from cede.uninstall import uninstall

    async with connected(chosen) as client:
        done, failed = await uninstall(client, _tell)
    return _report(chosen, done, failed)


def _tell(sentence: str) -> None:
    warn([sentence])


def _report(chosen: Options, done: list[str], failed: list[str]) -> int:
    show(chosen, {"done": done, "failed": failed}, done or ["nothing in this cluster is Cede's"])
    if failed:
        raise CommandFailed(f"some steps failed, run the command again: {'; '.join(failed)}")
    return DONE
