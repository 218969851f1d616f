"""Prints what the image of the controllers holds, as CycloneDX 1.6: `python -m deploy.sbom`.

It is made from the lock, so every build of one commit has the same one. What is not in the lock is
the base image: its own bill comes from its registry.
"""

import json
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from cede.api.objects import Json
from deploy import licences

LOCK = Path(__file__).parent / "locks" / "controllers.txt"
SPEC_VERSION = "1.6"
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def locked(lock: Path) -> Iterator[tuple[str, str, list[str]]]:
    """(name, version, hashes) of each package of a lock, in its order."""
    entries = re.split(r"\n(?=\S)", lock.read_text())
    for entry in entries:
        if pin := _PIN.match(entry):
            yield pin[1], pin[2], _HASH.findall(entry)


def bill(lock: Path = LOCK) -> Json:
    """The bill of materials as CycloneDX. Licences are those of the packages installed here."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "cede"}},
        "components": [_component(*entry) for entry in locked(lock)],
    }


def _component(name: str, version: str, hashes: list[str]) -> Json:
    purl = f"pkg:pypi/{name}@{version}"
    component: Json = {"type": "library", "bom-ref": purl, "purl": purl}
    component |= {"name": name, "version": version}
    # one for each file of the release; which one was installed depends on the platform
    component["properties"] = [{"name": "cede:sha256", "value": value} for value in sorted(hashes)]
    try:
        names = sorted(licences.of_package(metadata(name)))
    except PackageNotFoundError:
        return component
    component["licenses"] = [{"license": {"name": licence}} for licence in names]
    return component


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2))
