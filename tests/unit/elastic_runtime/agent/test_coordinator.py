"""What pod 0 keeps of the pods' reports, and what it answers."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from elastic_runtime import contract, json_codec, messages
from elastic_runtime.agent import coordinator as coordinator_module
from elastic_runtime.agent.coordination import (
    MEMBER_PATH,
    RECORD_PATH,
    CoordinatorReply,
    MemberReport,
    WorkDone,
)
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.membership_view import Limits, Member
from elastic_runtime.messages import Progress, Record
from tests.fakes.agents import HOST, report_to


def coordinator() -> Coordinator:
    """Of pods 0 and 1 in generation 3, which have not reported yet; its clock stands still."""
    job = Coordinator(1, Limits(), lambda: 100.0)
    record = Record(3, (0, 1), ("life-0", "life-1"), "here")
    job.view = replace(job.view, record=record)
    return job


def report(
    index: int,
    *,
    generation: int = 3,
    step: int = 0,
    parked: bool = False,
    progress: Progress | None = None,
) -> MemberReport:
    """The report of a pod that trains in generation 3, by default."""
    return MemberReport(
        index,
        f"life-{index}",
        address=HOST,
        generation=generation,
        members=(0, 1),
        step=step,
        ready=True,
        parked=parked,
        progress=progress or Progress(),
    )


async def test_save_that_ends_after_its_pod_led_counts_if_newer() -> None:
    job = coordinator()
    first = Progress(durable_step=4, digest="first", save_s=1.0)
    second = Progress(durable_step=7, digest="second", save_s=2.0, stall_s=0.5, loss=9.0)
    older = Progress(durable_step=5, digest="older", save_s=3.0)
    await report_to(job, report(0, progress=first))
    await report_to(job, report(1, progress=second))
    await report_to(job, report(1, progress=older))
    status = job.status()
    assert (status.durableStep, status.digest, status.saveSeconds) == (7, "second", 2.0)
    assert status.loss is None
    assert (job.progress.tally.saves, job.progress.tally.seconds["save"]) == (2, 0.5)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
async def test_status_is_json_whatever_the_loss_is(loss: float) -> None:
    """NaN and Infinity are no JSON: other languages refuse the whole status."""
    job = coordinator()
    await report_to(job, report(0, progress=Progress(step=4, loss=loss)))
    _, body = await job.handle("GET", contract.STATUS_PATH, b"")
    values = json.loads(body, parse_constant=pytest.fail)
    assert "loss" not in values
    assert values["state"] == contract.decode_status(body).state


async def test_status_names_a_slow_member_while_the_job_trains() -> None:
    job = coordinator()
    await report_to(job, replace(report(0), own_s=0.1))
    await report_to(job, replace(report(2, generation=0), own_s=9.0))
    assert "its part of a step" not in job.status().busy
    await report_to(job, replace(report(1), own_s=0.4))
    assert job.status().busy.startswith("training; waits for pod 1: its part of a step takes 0.4 s")


async def test_a_job_that_does_not_train_has_no_throughput() -> None:
    job = coordinator()
    pace = Progress(seconds=0.5)
    for steps in (0, 4):
        await report_to(job, replace(report(0, progress=pace), done=WorkDone(steps, 10 * steps)))
    assert job.status().samplesPerSecond == 0.0
    await report_to(job, report(1))
    assert job.status().samplesPerSecond == 20.0


@pytest.mark.parametrize(
    "change",
    [
        {"index": "0"},
        {"index": None},
        {"members": 3},
        {"members": ["a"]},
        {"progress": []},
        {"progress": {"step": -1}},
        {"store": {"port": 1}},
        {"kept": {"wanted": "x"}},
    ],
)
async def test_a_malformed_report_is_refused_in_one_line(change: dict[str, Any]) -> None:
    job = coordinator()
    values = json.loads(json_codec.encode(report(1))) | change
    with pytest.raises(ValueError, match=r"not a| is ") as raised:
        await job.handle("POST", MEMBER_PATH, json.dumps(values).encode())
    assert "\n" not in str(raised.value)


async def test_step_is_that_of_the_formed_members_before_they_commit_one() -> None:
    job = coordinator()
    job.progress.step = 120
    await report_to(job, report(1, step=121, generation=2))
    # No member has formed: the last step that was reported.
    assert job.status().step == 120
    # Pod 0 went back to a save.
    await report_to(job, report(0, step=50))
    assert job.status().step == 50
    await report_to(job, report(1, step=51))
    assert job.status().step == 51


async def test_silent_parked_pod_is_not_listed() -> None:
    now = 100.0
    job = Coordinator(1, Limits(silent_s=0.3), lambda: now)
    await report_to(job, report(2, parked=True, generation=0))
    assert job.status().parked == (2,)
    now += 0.4
    await report_to(job, report(3, parked=True, generation=0))
    assert job.status().parked == (3,)


async def test_long_message_is_shortened_so_that_the_status_is_valid() -> None:
    job = coordinator()
    await report_to(job, report(1, progress=Progress(message="saving failed: " + "x" * 5000)))
    message = contract.decode_status(contract.encode(job.status())).message
    assert (message[:16], message[-1], len(message)) == ("saving failed: x", "…", 500)


async def test_messages_on_size_saves_and_failures_stand_beside_each_other() -> None:
    job = coordinator()
    await report_to(job, report(0, progress=Progress(size_message="2 workers do nothing")))
    await report_to(job, report(0, progress=Progress(save_message="the disk is full")))
    await report_to(
        job, report(1, generation=0, progress=Progress(failure="gave up: KeyError: 'x'"))
    )
    assert job.status().message == (
        "pod 1 gave up: KeyError: 'x'; the disk is full; 2 workers do nothing"
    )
    # a controller that asked for a save must not take the others for its failure
    assert job.status().saveMessage == "the disk is full"
    await report_to(job, report(0, progress=Progress(save_message="")))
    assert job.status().message == "pod 1 gave up: KeyError: 'x'; 2 workers do nothing"
    assert not job.status().saveMessage


async def test_what_a_pod_gave_up_for_is_forgotten_when_it_trains_again() -> None:
    job = coordinator()
    await report_to(
        job, report(1, generation=0, progress=Progress(failure="gave up: KeyError: 'x'"))
    )
    await report_to(job, report(1, generation=0))
    assert job.status().message == "pod 1 gave up: KeyError: 'x'"
    await report_to(job, report(1))
    assert job.status().message == "pod 1 gave up: KeyError: 'x'"
    await report_to(job, report(1, progress=Progress(step=4)))
    assert job.status().message == ""


async def test_a_pod_beyond_the_size_is_not_missed() -> None:
    job = coordinator()
    await report_to(
        job, report(1, generation=0, progress=Progress(failure="gave up: KeyError: 'x'"))
    )
    job.view = replace(job.view, wanted=1)
    assert job.status().message == ""


async def test_store_of_the_first_member_completes_the_record() -> None:
    job = coordinator()
    job.view = replace(job.view, record=replace(job.view.record, store=""))
    opened = messages.StoreOpened(3, 7)
    await report_to(job, replace(report(1), store=opened))
    await report_to(job, replace(report(0), store=messages.StoreOpened(2, 7)))
    assert job.view.record.store == ""
    revision = job.revision
    await report_to(job, replace(report(0), store=opened))
    assert job.view.record.store == f"{HOST}:7"
    assert job.revision == revision + 1


async def reply_after(job: Coordinator, revision: int) -> CoordinatorReply:
    """What a pod receives that knows this revision."""
    status, body = await job.handle("GET", f"{RECORD_PATH}?after={revision}", b"")
    assert status == 200
    return json_codec.decode(CoordinatorReply, body)


async def test_a_record_is_sent_once_to_a_pod_that_takes_every_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_module, "LONG_POLL_S", 0.01)
    job = coordinator()
    await job._publish()
    first = await reply_after(job, 0)
    assert first.record == job.view.record
    await job.handle("POST", contract.CHECKPOINT_PATH, b"")
    second = await reply_after(job, first.revision)
    assert (second.record, second.saves_requested) == (None, 1)
    # No news: the poll ends without the record too.
    assert (await reply_after(job, second.revision)).record is None
    job.view = replace(job.view, record=replace(job.view.record, generation=4))
    await job._publish()
    assert (await reply_after(job, second.revision)).record == job.view.record


async def test_a_pod_that_followed_another_coordinator_is_sent_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That one may have been at a later revision."""
    monkeypatch.setattr(coordinator_module, "LONG_POLL_S", 0.01)
    job = coordinator()
    await job._publish()
    assert (await reply_after(job, 57)).record == job.view.record


async def test_a_new_coordinator_sends_the_record_that_it_inherits_to_pods_that_know_nothing() -> (
    None
):
    """A member may have missed it: the job would wait for it for ever."""
    job = coordinator()
    assert (await reply_after(job, 0)).record == job.view.record


async def test_a_reply_is_encoded_once_for_all_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    job = coordinator()
    encoded = list[Any]()

    def encode(message: object) -> bytes:
        encoded.append(message)
        return json_codec.dump({})

    monkeypatch.setattr("elastic_runtime.agent.coordinator.json_codec.encode", encode)
    for _ in range(3):
        await job.handle("GET", f"{RECORD_PATH}?after=-1", b"")
    assert len(encoded) == 1
    job.saves_requested += 1
    await job.handle("GET", f"{RECORD_PATH}?after=-1", b"")
    assert [reply.saves_requested for reply in encoded] == [0, 1]


@pytest.mark.parametrize(
    ("waiting", "pod", "others_wait"),
    [({5}, 5, False), ({5}, 6, True), ({4, 5, 6}, 5, True), (set(), 5, False)],
)
async def test_a_pod_sees_whether_another_one_waits(
    waiting: set[int], pod: int, others_wait: bool
) -> None:
    job = coordinator()
    job.waiting = waiting
    assert bool(set((await reply_after(job, -1)).waiting) - {pod}) == others_wait


async def test_a_large_job_is_told_to_report_more_rarely() -> None:
    job = coordinator()
    pods = {index: Member(index, "life", reported_at=100.0) for index in range(1000)}
    job.view = replace(job.view, members=pods)
    assert (await reply_after(job, -1)).heartbeat_s == 0.5


async def test_unknown_call_is_refused() -> None:
    status, body = await coordinator().handle("GET", "/v1/other", b"")
    assert (status, json_codec.load(body)) == (404, {"message": "no such call: GET /v1/other"})
