"""A user has a running job saved by `cede checkpoint`: by the deployed scheduler and real pods."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from elastic_runtime.agent.command_worker import SAVES_AT_STOPS
from tests.e2e.conftest import RESEARCH, create, elastic_job
from tests.e2e.test_restart import restarted
from tests.e2e.training import Training
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [pytest.mark.cluster, LONG]
# the fixture of tests/conftest.py
Cluster = Any


@pytest.fixture
def jobs(teams: Cluster) -> Iterator[Cluster]:
    """Afterwards there is no job."""
    yield teams
    teams.kubectl("delete", "jobs", "-n", RESEARCH, "--all", "--wait=true")


def checkpoint(cluster: Cluster, name: str) -> subprocess.CompletedProcess[str]:
    return cede(cluster, "checkpoint", name)


def cede(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cede.cli", *words, "-n", RESEARCH, "-o", "json"]
    env = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    return subprocess.run(command, env=env, cwd=TREE, text=True, capture_output=True, check=False)


def reasons(cluster: Cluster, name: str) -> list[str]:
    """Of the events of the Job about saves; not of an earlier one of the name."""
    field = f"involvedObject.uid={Training(cluster, RESEARCH, name).uid()}"
    items = cluster.kubectl_json("get", "events", "-n", RESEARCH, "--field-selector", field)[
        "items"
    ]
    return [item["reason"] for item in items if item["reason"] in ("Saved", "NotSaved")]


def noted_save(cluster: Cluster) -> int:
    """The newest save of the only job, as `cede jobs` shows it."""
    [row] = json.loads(cede(cluster, "jobs").stdout)
    return int(row["saved_step"] or 0)


def notes(cluster: Cluster) -> list[Any]:
    field = f"metadata.name={names.PROGRESS}"
    listed = cluster.kubectl_json("get", "configmaps", "-n", RESEARCH, "--field-selector", field)
    return list(listed["items"])


def test_a_job_saves_when_its_user_wants_it_and_trains_on(jobs: Cluster) -> None:
    create(jobs, elastic_job(RESEARCH, "2-4", 4))
    training = Training(jobs, RESEARCH, "gpt")
    jobs.until(training.trains_on(4), "it to train on four pods", 300)
    first = json.loads(checkpoint(jobs, "gpt").stdout)
    second = json.loads(checkpoint(jobs, "gpt").stdout)
    assert (first["saved"], second["saved"]) == (True, True)
    assert second["step"] > first["step"] > 0
    assert reasons(jobs, "gpt") == ["Saved", "Saved"]
    jobs.until(training.trains_on(4, after=second["step"]), "it to train on", 60)
    jobs.until(lambda: noted_save(jobs) >= second["step"], "the save to be shown", 60)
    training.check_undisturbed()
    jobs.kubectl("delete", "jobs", "-n", RESEARCH, "--all", "--wait=true")
    jobs.until(lambda: not notes(jobs), "the note to go with the job", 60)


def test_a_script_that_saves_only_at_stops_says_so(jobs: Cluster) -> None:
    folder = f"/shared/restarted-{uuid4().hex[:8]}"
    create(jobs, restarted(folder))
    training = Training(jobs, RESEARCH, "restarted")

    def trains() -> bool:
        pods = [pod["metadata"]["name"] for pod in training.pods()]
        show = ("--", "sh", "-c", f"cat {folder}/steps.jsonl || true")
        return any(jobs.kubectl("exec", "-n", RESEARCH, name, *show).strip() for name in pods)

    jobs.until(trains, "it to do its first step", 180)
    done = checkpoint(jobs, "restarted")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["saved"]) == (1, False)
    assert facts["message"] == f"restarted has not saved: {SAVES_AT_STOPS}"
    assert reasons(jobs, "restarted") == ["NotSaved"]
