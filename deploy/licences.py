"""Which licences a dependency may have, and which one it has by its metadata."""

import re
from email.message import Message
from importlib.metadata import PackageMetadata

PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
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
# how packages without an SPDX expression write these, in lower case
_SPELLINGS = {
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}


def of_package(metadata: PackageMetadata | Message) -> frozenset[str]:
    """The SPDX names of its licences; as it writes them where they are none. Empty if it says
    nothing."""
    for expression in metadata.get_all("License-Expression") or []:
        without_exceptions = re.sub(r"\s+WITH\s+\S+", "", str(expression))
        return frozenset(re.split(r"\s+(?:AND|OR)\s+|[()]", without_exceptions)) - {""}
    classifiers = metadata.get_all("Classifier") or []
    texts = [
        str(text).rpartition("::")[2].strip()
        for text in classifiers
        if str(text).startswith("License ::")
    ]
    # many packages have the whole text in this field
    fields = [str(text) for text in metadata.get_all("License") or []]
    if not texts:
        texts = [field for field in fields if field and "\n" not in field]
    return frozenset(_SPELLINGS.get(text.lower(), text) for text in texts)
