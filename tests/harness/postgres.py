"""A PostgreSQL server of its own for a test, where the programs of one are installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.local_job import free_port

OTHER_USER = "nobody"
"""PostgreSQL does not run as root."""
PLACES = "/usr/lib/postgresql/*/bin"


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; None where there is none."""
    candidates = [*Path("/").glob(PLACES.lstrip("/"))]
    if path := shutil.which("initdb"):
        candidates.append(Path(path).resolve().parent)
    return next((folder for folder in sorted(candidates) if (folder / "pg_ctl").exists()), None)


@contextmanager
def server(folder_of_programs: Path) -> Iterator[str]:
    """The URL of an empty database on a port of its own, until the context ends."""
    with tempfile.TemporaryDirectory(prefix="cede-postgres-") as name:
        folder = Path(name)
        user = None
        if os.geteuid() == 0:
            user = OTHER_USER
            shutil.chown(folder, user)
        data = folder / "data"

        def run(program: str, *arguments: str) -> None:
            command = [str(folder_of_programs / program), *arguments]
            subprocess.run(command, check=True, user=user, cwd=folder, capture_output=True)

        run("initdb", "-D", str(data), "-U", "ledger", "--auth=trust", "-E", "UTF8", "-N")
        port = free_port()
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"
        run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://ledger@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
