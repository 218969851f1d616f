"""Leads the browser to the page without showing the token. The address that a browser opens is an
argument of its process, which everybody on the machine may read; a file need not be."""

import html
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "cede.html"
DOCUMENT = """<!doctype html>
<meta charset="utf-8">
<title>Cede</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
"""


@contextmanager
def redirect_file(address: str) -> Iterator[str]:
    """The address of a file that leads there, which only its owner can read. It is removed at the
    end."""
    # a folder that only its owner can enter
    with tempfile.TemporaryDirectory(prefix="cede-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / NAME
        file.touch(mode=0o600)
        file.write_text(DOCUMENT.format(address=html.escape(address, quote=True)))
        yield file.as_uri()
