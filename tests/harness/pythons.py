"""The Pythons of this machine: in PATH, of `make test-pythons`, and of pyenv."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def find_python(version: str) -> str | None:
    """The path of a Python of this version, such as 3.12; None if there is none that starts."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in _candidates(version):
        result = subprocess.run([candidate, "-c", show], capture_output=True, text=True)
        if result.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[str]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    yield from map(str, cache.glob(f"cede/python-{version}/bin/python"))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, pyenv.glob(f"versions/{version}.*/bin/python"))
    if path := shutil.which(f"python{version}"):
        yield path
