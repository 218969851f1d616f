"""Fixtures of the tests of the webhook: a team, and a user of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.user import ALLOCATION, POLICY, QUEUED, TEAM, Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """An object → the file a user would have."""

    def written(found: Json) -> str:
        path = tmp_path / "job.yaml"
        path.write_text(json.dumps(found))
        return str(path)

    return written


@pytest.fixture(scope="module")
def team(cluster: Any) -> Iterator[str]:
    """The namespace of a team that owns nothing: its jobs wait, which is all that is needed
    here."""
    cluster.kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [POLICY, ALLOCATION]}),
    )
    cluster.until(
        lambda: QUEUED in cluster.kubectl("get", "localqueues", "-n", TEAM, "-o", "name"),
        "the team's queue",
        120,
    )
    yield TEAM
    cluster.kubectl("delete", "job", "-n", TEAM, "--all", "--wait=true")
    cluster.kubectl("delete", "computeallocation", TEAM, "--wait=true")
    cluster.kubectl("delete", "namespace", TEAM, "--ignore-not-found", "--timeout=120s")
    cluster.kubectl("delete", "clusterpolicy", names.POLICY_NAME)


@pytest.fixture
def user(cluster: Any, team: str) -> Iterator[Any]:
    yield cluster
    cluster.kubectl("delete", "job", "-n", team, "--all", "--wait=true")
