"""A pod that is alone when its job has finished ends, once it has looked for others."""

import subprocess
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from tests.harness.local_job import Job

pytestmark = pytest.mark.processes


def report_finish(job: Job) -> int:
    """The HTTP status with which the job's only pod answers; 0 if it does not answer."""
    try:
        job.call("POST", contract.FINISHED_PATH)
    except OSError:
        return 0
    except control_client.Refused as refused:
        return refused.status
    return HTTPStatus.OK


def test_a_pod_that_looks_for_others_in_vain_ends_when_pod_0_has_succeeded(tmp_path: Path) -> None:
    job = Job(tmp_path, "import time; time.sleep(600)", smallest=2)
    job.start(1)
    answers = list[int]()
    try:
        for _ in range(60):
            answers.append(report_finish(job))
            with suppress(subprocess.TimeoutExpired):
                assert job.pods[1].wait(1) == 0, job.output()
                break
    finally:
        job.kill()
    refused, accepted = answers.index(HTTPStatus.CONFLICT), answers.index(HTTPStatus.OK)
    assert refused < accepted, answers
