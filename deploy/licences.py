"""Which licences a dependency may have, and which one it has by its metadata."""

import re
from collections.abc import Iterable
from email.message import Message
from importlib.metadata import PackageMetadata, PackageNotFoundError
from importlib.metadata import metadata as metadata_of

PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "PSF-2.0",
        "Zlib",
    }
)
WEAK_COPYLEFT = frozenset({"MPL-2.0"})
"""Files of theirs that are changed stay under it; nothing of ours becomes so. We change none."""
ALLOWED = PERMISSIVE | WEAK_COPYLEFT
NVIDIA = ("nvidia-", "cuda-")
"""What torch brings for GPUs, under NVIDIA's own terms. No image of ours holds it, and no file of
ours is made from it."""
# how packages without an SPDX expression write these, in lower case
_SPELLINGS = {
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}


def refused(packages: Iterable[str]) -> dict[str, list[str]]:
    """Those with a licence that is not allowed, with all of theirs. One that names none, or that is
    not installed here, so that nobody knows, has an empty list."""
    return {
        name: sorted(found_licences)
        for name in packages
        if not (found_licences := _of_installed(name)) or not found_licences <= ALLOWED
    }


def _of_installed(name: str) -> frozenset[str]:
    try:
        return of_package(metadata_of(name))
    except PackageNotFoundError:
        return frozenset()


def of_package(metadata: PackageMetadata | Message) -> frozenset[str]:
    """The SPDX names of its licences; as it writes them where they are none. Empty if it says
    nothing."""
    for expression in metadata.get_all("License-Expression") or []:
        return _names(str(expression))
    classifiers = metadata.get_all("Classifier") or []
    texts = [
        str(text).rpartition("::")[2].strip()
        for text in classifiers
        if str(text).startswith("License ::")
    ]
    if texts:
        return frozenset(_SPELLINGS.get(text.lower(), text) for text in texts)
    # many packages have the whole text in this field
    fields = [str(text) for text in metadata.get_all("License") or []]
    written = [_SPELLINGS.get(field.lower(), field) for field in fields if "\n" not in field]
    return frozenset(name for text in written for name in _names(text))


def _names(expression: str) -> frozenset[str]:
    """Of an SPDX expression, without its exceptions: these allow more."""
    without_exceptions = re.sub(r"\s+WITH\s+\S+", "", expression)
    return frozenset(re.split(r"\s+(?:AND|OR)\s+|[()]", without_exceptions)) - {""}
