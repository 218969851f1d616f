"""Brings the runtime into pods whose image does not have it.

    python -m elastic_runtime.agent.injection /opt/cede 2

The webhook adds an init container with this line, of Cede's own image. It copies this package into
a volume, where the training container finds it by PYTHONPATH.
"""

import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from elastic_runtime import contract

PACKAGE = Path(contract.__file__).parent
VERSION = re.compile(r"^VERSION = (\d+)$", re.MULTILINE)


def copy_runtime(folder: Path, admitted_version: int) -> str:
    """The folder has the package afterwards, unless a sentence that says why not is returned.

    `admitted_version`: that of the contract, when the job was admitted. The pods of a job talk to
    each other, so a tag that another image has got meanwhile must not bring another runtime.
    """
    if admitted_version != contract.VERSION:
        return (
            f"this image of Cede has version {contract.VERSION} of the contract, and the job was "
            f"admitted with version {admitted_version}: its tag was given to another image. Name "
            f"Cede's image by digest, and create the job again"
        )
    try:
        shutil.copytree(
            PACKAGE,
            folder / PACKAGE.name,
            ignore=shutil.ignore_patterns("__pycache__"),
            # readable for every user that the training container may run as
            copy_function=shutil.copyfile,
            # the kubelet may start an init container again
            dirs_exist_ok=True,
        )
    except OSError as error:
        return f"the runtime cannot be copied to {folder}: {error}"
    return ""


def other_runtime(folders: Iterable[str]) -> str:
    """A sentence if one of the folders, such as those of `sys.path`, has a runtime of another
    version of the contract; empty if none has."""
    for folder in folders:
        package = Path(folder) / PACKAGE.name
        source = package / "contract.py"
        if package.resolve() == PACKAGE.resolve() or not source.is_file():
            continue
        version = VERSION.search(source.read_text(errors="replace"))
        if version and int(version[1]) != contract.VERSION:
            return (
                f"the runtime in {PACKAGE} is used, with version {contract.VERSION} of the "
                f"contract, and not that of the image in {package}, with version {version[1]}: "
                f"remove that from the image, or the annotation cede.dev/runtime from the job"
            )
    return ""


if __name__ == "__main__":
    if complaint := copy_runtime(Path(sys.argv[1]), int(sys.argv[2])):
        sys.exit(f"elastic_runtime: {complaint}")
