"""`cede version`: the version of this package."""

from importlib import metadata

from cede.commands.command import DONE, Options
from cede.commands.output import show


async def version(chosen: Options) -> int:
    """Show the version of Cede."""
    show(chosen, {"version": own_version()}, [f"cede {own_version()}"])
    return DONE


def own_version() -> str:
    try:
        return metadata.version("cede")
    except metadata.PackageNotFoundError:
        return "unreleased"
