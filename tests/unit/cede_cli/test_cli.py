"""The entry of the `cede` command where its packages are missing."""

import subprocess
import sys

from tests.paths import TREE


def test_without_its_packages_the_command_prints_what_to_install() -> None:
    """An interpreter without site-packages, as in a training image."""
    script = (
        f"import sys; sys.path.insert(0, {str(TREE)!r}); from cede.cli import main; "
        f"sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-I", "-S", "-c", script, "status"]
    failed = subprocess.run(command, text=True, capture_output=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == (
        "cede: typer is not installed here: install Cede's own wheel with its extra [cli]\n"
    )
