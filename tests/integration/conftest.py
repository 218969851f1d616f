"""Fixtures of the tests of the webhook: a team, and a user of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.user import ALLOCATION, LOCAL_QUEUE, POLICY, TEAM, WriteFile


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Writes an object to a file, and returns its path."""

    def write_file(obj: Json) -> str:
        path = tmp_path / "job.yaml"
        path.write_text(json.dumps(obj))
        return str(path)

    return write_file


@pytest.fixture(scope="module")
def team(cluster: Any) -> Iterator[str]:
    """The namespace of a team without quota: its jobs stay pending, which these tests need."""
    objects = {"apiVersion": "v1", "kind": "List", "items": [POLICY, ALLOCATION]}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
    cluster.until(
        lambda: LOCAL_QUEUE in cluster.kubectl("get", "localqueues", "-n", TEAM, "-o", "name"),
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
    """kubectl for a user; the team's jobs are deleted afterwards."""
    yield cluster
    cluster.kubectl("delete", "job", "-n", team, "--all", "--wait=true")
