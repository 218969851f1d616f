"""The images are built from a base that cannot change."""

import re
import subprocess

import pytest

from tests.paths import TREE

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def check_of_base(base: str) -> subprocess.CompletedProcess[str]:
    """The first command of the build, with this BASE."""
    text = (TREE / "deploy" / "Dockerfile").read_text().replace("\\\n", "")
    match = re.search(r"^RUN (case .*)$", text, re.MULTILINE)
    assert match
    command = ["sh", "-c", match[1]]
    return subprocess.run(command, env={"BASE": base}, text=True, capture_output=True, check=False)


@pytest.mark.parametrize(
    "base", [f"python:3.11-slim@{DIGEST}", f"registry.example/python@{DIGEST}", "localhost/x:dev"]
)
def test_a_digest_and_what_this_machine_made_are_a_base(base: str) -> None:
    assert check_of_base(base).returncode == 0


@pytest.mark.parametrize("base", ["python:3.11-slim", "registry.example/localhost/x:1"])
def test_a_tag_is_no_base(base: str) -> None:
    refused = check_of_base(base)
    assert refused.returncode == 1
    assert f"BASE is {base}, a tag: name it by digest, as docs/install.md shows" in refused.stderr
