"""Lines that go before a script: `lost(NAME)` ends the process at a moment that a test chooses."""

import os
import signal
from pathlib import Path


def lost(name: str) -> None:
    """Kills this process, once, if a file of this name exists."""
    try:
        Path(name).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
