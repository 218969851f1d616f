"""What pod 0 keeps of what the pods say, and what the others pass on to it and keep for the next
one."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import agent, control_server
from elastic_runtime.agent.agent import Parent
from elastic_runtime.agent.coordinator import MEMBER_PATH, RECORD_PATH, STACKS_PATH, Coordinator
from elastic_runtime.agent.membership import Limits, Record
from elastic_runtime.agent.pod_state import Facts, Settings
from elastic_runtime.agent.worker_process import PARENT_FD_ENV, spawn
from elastic_runtime.contract import SizeRequest

KEY = b"key"
JOB = "uid"
HOST = "127.0.0.1"


def pod(index: int, port: int = 0) -> Parent:
    """`port`: pod 0's."""
    return Parent(
        Settings(index, "test", JOB, KEY, HOST, coordinator=HOST, coordinator_port=port, port=0), []
    )


@asynccontextmanager
async def listening(of: Parent) -> AsyncIterator[int]:
    """Its control port."""
    server = control_server.Server(KEY, JOB, of._serve, of._metrics)
    try:
        yield await server.start(0, HOST)
    finally:
        await server.stop()


@asynccontextmanager
async def three_pods() -> AsyncIterator[tuple[int, ...]]:
    """Their control ports."""
    first = pod(0)
    first.coordinator = Coordinator(1)
    async with (
        listening(first) as port,
        listening(pod(1, port)) as second,
        listening(pod(2, port)) as third,
    ):
        yield port, second, third


async def test_what_one_pod_was_asked_is_a_replay_at_every_other() -> None:
    body = contract.encode(SizeRequest(3))
    async with three_pods() as ports:
        for there, elsewhere in permutations(ports, 2):
            signed = contract.sign_request(
                KEY, "PUT", contract.SIZE_PATH, JOB, f"{there}-{elsewhere}", body, time.time()
            )
            reply = await control_server.pass_on(
                HOST, there, KEY, "PUT", contract.SIZE_PATH, signed, body
            )
            assert contract.decode_status(reply).wanted == 3
            with pytest.raises(control_server.Refused, match="401: the request was seen before"):
                await control_server.pass_on(
                    HOST, elsewhere, KEY, "PUT", contract.SIZE_PATH, signed, body
                )


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", contract.STATUS_PATH), ("POST", contract.CHECKPOINT_PATH)],
    ids=["the status", "a save"],
)
async def test_every_pod_answers_a_controller(method: str, path: str) -> None:
    async with three_pods() as ports:
        for port in ports:
            assert (
                contract.decode_status(
                    await control_server.call(HOST, port, KEY, JOB, method, path)
                ).state
                == contract.State.STARTING
            )


async def test_why_pod_0_refuses_is_said_by_every_pod() -> None:
    async with three_pods() as ports:
        for port in ports:
            with pytest.raises(control_server.Refused, match="400: size is '-1'"):
                await control_server.call(
                    HOST, port, KEY, JOB, "PUT", contract.SIZE_PATH, b'{"size": -1}'
                )


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", MEMBER_PATH), ("GET", f"{RECORD_PATH}?after=0"), ("POST", STACKS_PATH)],
)
async def test_what_pods_say_among_themselves_is_for_pod_0_only(method: str, path: str) -> None:
    async with three_pods() as (_, *others):
        for port in others:
            with pytest.raises(control_server.Refused, match=r"404: .* is answered by pod 0 only"):
                await control_server.call(HOST, port, KEY, JOB, method, path, b"{}")


def coordinator() -> Coordinator:
    """Of pods 0 and 1 in generation 3, of which it has not heard yet, by a clock that stands
    still."""
    job = Coordinator(1, Limits(), lambda: 100.0)
    job.view = replace(job.view, record=Record(3, (0, 1), ("life-0", "life-1"), "here"))
    return job


async def hear(job: Coordinator, index: int, **said: Any) -> None:
    """A pod says this of itself, and for the rest that it trains."""
    facts = asdict(Facts(f"life-{index}", generation=3, members=(0, 1), ready=True))
    assert await job.handle(
        "POST", MEMBER_PATH, control_server.dump({**facts, "index": index, "address": HOST, **said})
    ) == (200, b"{}")


async def test_a_save_that_ends_with_a_pod_that_leads_no_more_is_known() -> None:
    job = coordinator()
    await hear(job, 0, progress={"durable_step": 4, "digest": "first", "save_s": 1.0})
    await hear(
        job,
        1,
        progress={
            "durable_step": 7,
            "digest": "second",
            "save_s": 2.0,
            "stall_s": 0.5,
            "loss": 9.0,
        },
    )
    await hear(job, 1, progress={"durable_step": 5, "digest": "older", "save_s": 3.0})
    status = job.status()
    assert (status.durableStep, status.digest, status.saveSeconds, status.loss) == (
        7,
        "second",
        2.0,
        0.0,
    )
    assert (job.tally.saves, job.tally.seconds["save"]) == (2, 0.5)


async def test_the_step_is_where_the_members_have_formed_before_they_commit_one() -> None:
    job = coordinator()
    job.progress.step = 120
    await hear(job, 1, step=121, generation=2)
    # nobody has formed: as far as is known
    assert job.status().step == 120
    # it went back to a save
    await hear(job, 0, step=50)
    assert job.status().step == 50
    await hear(job, 1, step=51)
    assert job.status().step == 51


async def test_a_parked_pod_that_is_gone_is_not_listed() -> None:
    now = 100.0
    job = Coordinator(1, Limits(silent_s=0.3), lambda: now)
    await hear(job, 2, parked=True, generation=0)
    assert job.status().parked == (2,)
    now += 0.4
    await hear(job, 3, parked=True, generation=0)
    assert job.status().parked == (3,)


async def test_a_long_message_is_cut_and_the_status_that_bears_it_understood() -> None:
    job = coordinator()
    await hear(job, 1, progress={"message": "saving failed: " + "x" * 5000})
    said = contract.decode_status(contract.encode(job.status())).message
    assert (said[:16], said[-1], len(said)) == ("saving failed: x", "…", 500)


async def told(job: Coordinator) -> dict[str, Any]:
    """What a pod that asks hears now."""
    status, body = await job.handle("GET", f"{RECORD_PATH}?after=-1", b"")
    assert status == 200
    found: dict[str, Any] = json.loads(body)
    return found


async def test_what_a_new_coordinator_does_not_know_yet_is_kept_for_it() -> None:
    first = coordinator()
    second = Coordinator(1)
    member = pod(1)
    await first.handle("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(2, "c-1")))
    await hear(first, 0, progress={"durable_step": 7, "digest": "d", "save_s": 1.5})
    member._heed(await told(first))
    # before it has heard from anybody
    member._heed(await told(second))
    await hear(second, 1, **member.kept)
    status = second.status()
    assert (
        status.wanted,
        status.cession,
        status.durableStep,
        status.digest,
        status.saveSeconds,
    ) == (2, "c-1", 7, "d", 1.5)


async def test_what_a_coordinator_was_asked_later_is_what_is_kept() -> None:
    job = coordinator()
    member = pod(1)
    for size, cession, step in ((2, "c-1", 7), (1, "", 9)):
        await job.handle("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(size, cession)))
        await hear(job, 0, progress={"durable_step": step, "digest": f"of-{step}", "save_s": 1.0})
        member._heed(await told(job))
    assert member.kept == {
        "wanted": 1,
        "cession": "",
        "durable_step": 9,
        "digest": "of-9",
        "save_s": 1.0,
    }


ECHO = f"""
import os, socket
parent = socket.socket(fileno=int(os.environ["{PARENT_FD_ENV}"]))
for line in parent.makefile("rb"):
    if b'"save"' in line:
        parent.sendall(b"told")
"""


async def test_a_save_wished_of_a_new_coordinator_is_told_to_ranks_that_made_some_for_the_last_one() -> (
    None
):
    first = Coordinator(1)
    second = Coordinator(1)
    member = pod(1)
    rank = await spawn(["-c", ECHO], 0, 1, time.monotonic)
    member.ranks = [rank]
    try:
        async with asyncio.timeout(20):
            for job, wishes in ((first, 2), (second, 2)):
                for _ in range(wishes):
                    await job.handle("POST", contract.CHECKPOINT_PATH, b"")
                member._heed(await told(job))
                if wishes:
                    assert await rank.reader.readexactly(4) == b"told"
    finally:
        rank.kill()
        await rank.process.wait()
        rank.close()


LEAVES_ONE_BEHIND = f"""
import os, subprocess, sys
from pathlib import Path
left = Path(sys.argv[1])
if left.exists():
    sys.exit(0)
left.write_text(str(subprocess.Popen(["sleep", "60"], start_new_session=True, pass_fds=[int(os.environ["{PARENT_FD_ENV}"])]).pid))
os._exit(1)
"""


async def test_a_rank_is_started_again_though_what_it_started_holds_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "LAST_S", 0.1)
    member = pod(1)
    left = tmp_path / "left"
    member.script = ["-c", LEAVES_ONE_BEHIND, str(left)]
    try:
        async with asyncio.timeout(20):
            await member._raise()
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)
    assert (member._all_deaths, member.code, member._over.is_set()) == (1, 0, True)
