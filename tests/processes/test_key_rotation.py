"""The key of a running job is replaced: it trains on, is resized, and the old key ends."""

import time
from collections.abc import Callable

import pytest

from elastic_runtime import contract
from elastic_runtime.agent.control_client import Refused
from elastic_runtime.agent.signing_keys import REREAD_S
from tests.harness import local_job
from tests.harness.local_job import KEY, Job, check_exactly_once
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]
SCRIPT = local_job.SCRIPT
NEW_KEY = b"1" * 64


def test_a_job_trains_on_while_its_key_is_replaced_and_ends(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    before = job.trains(2)
    file = job.directory / "key"
    replaced_at = time.time()
    file.write_bytes(contract.replace_key(KEY, NEW_KEY, KEY, replaced_at))
    until(lambda: accepts(job, NEW_KEY))
    assert accepts(job, KEY)
    # as if it had been replaced so long ago
    file.write_bytes(contract.replace_key(KEY, NEW_KEY, KEY, replaced_at - contract.KEY_OVERLAP_S))
    until(lambda: not accepts(job, KEY))
    job.key = NEW_KEY
    after = job.trains(2, beyond=10)
    assert after.generation == before.generation, "no pod lost the other"
    job.resize(1)
    job.resumes(after, 1)
    job.stop()
    check_exactly_once(job, undisturbed)


def accepts(job: Job, key: bytes) -> bool:
    try:
        return bool(job.call("GET", contract.STATUS_PATH, key=key))
    except Refused as refused:
        if refused.message != contract.WRONG_SIGNATURE:
            raise
        return False


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 6 * REREAD_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)
