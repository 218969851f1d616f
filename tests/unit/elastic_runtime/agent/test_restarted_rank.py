"""One rank of a script that is restarted: when it is told, killed, started again, or given up."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from elastic_runtime import messages
from elastic_runtime.agent import restarted_rank
from elastic_runtime.agent.command_worker import SAVES_AT_STOPS
from elastic_runtime.agent.hang_detection import Patience
from elastic_runtime.agent.restarted_rank import RestartedRank
from elastic_runtime.agent.script_watch import ScriptWatch
from elastic_runtime.agent.settings import MAX_RESTARTS, PROGRESS_FILE_ENV
from elastic_runtime.messages import Record, decode_worker_message, encode_line

# Writes its rank, waits for the signal, and "saves".
SAVES = """
echo "$RANK of $WORLD_SIZE" >> log
trap "echo saved >> log; exit 0" TERM
while :; do sleep 0.01; done
"""
IGNORES = 'echo began >> log; trap "" TERM; while :; do sleep 0.01; done'
PAIR = Record(1, (0, 1), ("a", "b"), store="127.0.0.1:4242")
# So that a frozen script is found soon, and one that reports nothing for a second.
PATIENCE = Patience(early_timeout_s=0.5, step_timeout_s=1.0)


class Agent:
    """The agent's end of the socket to one rank in pod 1, or another."""

    def __init__(self, directory: Path, command: str, grace_s: float, index: int) -> None:
        self.log = directory / "log"
        self.index = index
        here, there = socket.socketpair()
        shell = ["sh", "-c", f"cd {directory}; {command}"]
        watch = ScriptWatch(PATIENCE)
        env = {"PATH": "/usr/bin:/bin", PROGRESS_FILE_ENV: watch.path, "CEDE_MICRO_BATCHES": "24"}
        self.rank = RestartedRank(signal.SIGTERM, shell, env, 0, 1, grace_s, watch)
        self.end = asyncio.create_task(self.rank.run(there.detach()))
        self._socket = here

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(sock=self._socket)
        assert await self.answer() == messages.Ready()

    def tell(self, record: Record) -> None:
        self.writer.write(encode_line(messages.NewRecord(record, self.index)))

    async def answer(self) -> messages.WorkerMessage:
        async with asyncio.timeout(30):
            return decode_worker_message(await self.reader.readline())

    async def fails_with(self, code: int, generation: int) -> None:
        """The script is started, and ends with this exit code."""
        assert isinstance(await self.answer(), messages.Formed)
        failure = f"had to start the script again, which had exit code {code}"
        assert await self.answer() == messages.Progress(failure=failure)
        assert await self.answer() == messages.Broken(generation)

    async def until_log(self, *lines: str) -> None:
        async with asyncio.timeout(30):
            # Nothing notifies of a line.
            while not (self.log.exists() and self.log.read_text().splitlines() == [*lines]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        if self.rank.process and self.rank.runs:
            self.rank.process.kill()
            await self.rank.process.wait()
        self.end.cancel()
        self.writer.close()
        await asyncio.gather(self.end, return_exceptions=True)


class Make(Protocol):
    async def __call__(self, command: str, grace_s: float = 30.0, index: int = 1) -> Agent: ...


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    agents = list[Agent]()

    async def make(command: str, grace_s: float = 30.0, index: int = 1) -> Agent:
        agents.append(agent := Agent(tmp_path, command, grace_s, index))
        await agent.open()
        return agent

    yield make
    for agent in agents:
        await agent.close()


async def test_at_a_new_size_the_script_saves_and_starts_again_with_a_new_rank(
    make: Make,
) -> None:
    agent = await make(SAVES)
    agent.tell(PAIR)
    assert await agent.answer() == messages.Formed(1, (0, 1), step=0)
    await agent.until_log("1 of 2")
    # All are told before the ranks know where to meet.
    agent.tell(Record(2, (1, 2, 3), ("b", "c", "d")))
    await agent.until_log("1 of 2", "saved")
    opened = await agent.answer()
    assert isinstance(opened, messages.StoreOpened)
    assert opened.generation == 2
    assert opened.port > 0
    agent.tell(Record(2, (1, 2, 3), ("b", "c", "d"), store="127.0.0.1:4243"))
    assert await agent.answer() == messages.Formed(2, (1, 2, 3), step=0)
    await agent.until_log("1 of 2", "saved", "0 of 3")


async def test_a_script_is_told_its_share_of_the_micro_batches_at_each_size(make: Make) -> None:
    agent = await make(SAVES.replace("$RANK of $WORLD_SIZE", "$CEDE_ACCUMULATION_STEPS"))
    agent.tell(PAIR)
    await agent.until_log("12")
    agent.tell(Record(2, (0, 1, 2, 3, 4), ("a", "b", "c", "d", "e"), store="127.0.0.1:4243"))
    assert await agent.end == 2


async def test_a_pod_that_is_no_member_saves_and_is_parked(make: Make) -> None:
    agent = await make(SAVES)
    agent.tell(PAIR)
    await agent.answer()
    await agent.until_log("1 of 2")
    agent.tell(Record(2, (0,), ("a",), store="127.0.0.1:4243"))
    assert await agent.answer() == messages.Parked(step=0, generation=2)
    await agent.until_log("1 of 2", "saved")


async def test_after_a_loss_a_script_that_waits_for_a_peer_is_killed(make: Make) -> None:
    agent = await make(IGNORES)
    agent.tell(PAIR)
    await agent.answer()
    await agent.until_log("began")
    agent.tell(Record(2, (1,), ("b",), store="127.0.0.1:4243", abrupt=True))
    assert await agent.answer() == messages.Formed(2, (1,), step=0)
    await agent.until_log("began", "began")


async def test_a_loss_in_the_grace_period_ends_it(make: Make) -> None:
    agent = await make(IGNORES)
    agent.tell(PAIR)
    await agent.answer()
    await agent.until_log("began")
    agent.tell(Record(2, (0, 1, 2), ("a", "b", "c")))
    agent.tell(Record(3, (1,), ("b",), store="127.0.0.1:4243", abrupt=True))
    assert await agent.answer() == messages.Formed(3, (1,), step=0)


async def test_a_script_that_has_ended_is_started_again_if_another_rank_fails(make: Make) -> None:
    agent = await make("echo began >> log; exit 0")
    agent.tell(PAIR)
    assert await agent.answer() == messages.Formed(1, (0, 1), step=0)
    assert await agent.answer() == messages.ScriptEnded()
    agent.tell(Record(2, (0, 1), ("a", "b"), store="127.0.0.1:4243", abrupt=True))
    assert await agent.answer() == messages.Formed(2, (0, 1), step=0)
    await agent.until_log("began", "began")


@pytest.mark.parametrize(
    ("trap", "message"),
    [
        pytest.param('trap "exit 0" TERM', "", id="saved"),
        pytest.param('trap "exit 143" TERM', "", id="saved, and told so"),
        pytest.param('trap "exit 7" TERM', "failed with exit code 7 when it had", id="failed"),
        pytest.param(
            'trap "kill -KILL $$" TERM', "failed with exit code 137", id="killed by the kernel"
        ),
        pytest.param("", "does not handle SIGTERM, and saved nothing", id="not handled"),
        pytest.param('trap "" TERM', "did not end within 0.5 s, and was killed", id="ignored"),
    ],
)
async def test_the_status_says_how_a_script_failed_to_save(
    make: Make, trap: str, message: str
) -> None:
    agent = await make(f"{trap}\necho began >> log\nwhile :; do sleep 0.01; done", grace_s=0.5)
    agent.tell(PAIR)
    await agent.answer()
    await agent.until_log("began")
    agent.tell(Record(2, (0,), ("a",), store="127.0.0.1:4243"))
    if message:
        progress = await agent.answer()
        assert isinstance(progress, messages.Progress)
        assert message in (progress.save_message or "")
    assert await agent.answer() == messages.Parked(step=0, generation=2)


async def test_a_good_run_forgets_earlier_failures(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarted_rank, "GOOD_RUN_S", 0.0)
    # a script that has not ended yet is not looked at
    monkeypatch.setattr(restarted_rank, "WATCH_INTERVAL_S", 3600.0)
    agent = await make("exit 9")
    agent.tell(PAIR)
    for generation in range(2, 3 + 2 * MAX_RESTARTS):
        await agent.fails_with(9, generation - 1)
        agent.tell(Record(generation, (0, 1), ("a", "b"), store="127.0.0.1:4242", abrupt=True))


async def test_a_record_of_four_thousand_pods_is_read(make: Make) -> None:
    agent = await make(SAVES, index=0)
    members = tuple(range(4096))
    lives = tuple(f"{index:012x}.1" for index in members)
    agent.tell(Record(1, members, lives))
    assert isinstance(await agent.answer(), messages.StoreOpened)


async def test_failures_by_lost_peers_do_not_count_and_others_end_the_pod(make: Make) -> None:
    agent = await make("exit 9")
    agent.tell(Record(1, (0, 1), ("a.0", "b"), store="127.0.0.1:4242"))
    generation = 1
    # Each time the other pod was restarted.
    for generation in range(2, 8):
        await agent.fails_with(9, generation - 1)
        lives = (f"a.{generation}", "b")
        agent.tell(Record(generation, (0, 1), lives, store="127.0.0.1:4242", abrupt=True))
    for generation in range(8, 8 + MAX_RESTARTS + 1):
        await agent.fails_with(9, generation - 1)
        agent.tell(Record(generation, (0, 1), lives, store="127.0.0.1:4242", abrupt=True))
    failed = await agent.answer()
    assert isinstance(failed, messages.Failed)
    assert failed.is_mistake
    assert "failed 4 times in a row, with exit code 9" in failed.reason
    assert await agent.end == 9


async def test_it_ends_when_the_agent_has_ended(make: Make) -> None:
    agent = await make(SAVES)
    agent.writer.close()
    assert await agent.end == 1


# The step that it has loaded, then two more. The second number of a report is the step.
COUNTS = f"""
echo "1 40" > ${PROGRESS_FILE_ENV}; sleep 0.3; echo "3 42" > ${PROGRESS_FILE_ENV}
"""


async def test_steps_are_reported_and_the_last_one_counts_as_saved(make: Make) -> None:
    agent = await make(COUNTS + SAVES)
    agent.tell(PAIR)
    assert await agent.answer() == messages.Formed(1, (0, 1), step=0)
    steps = [await agent.answer(), await agent.answer()]
    assert [getattr(step, "step", None) for step in steps] == [41, 42]
    agent.tell(Record(2, (0,), ("a",), store="127.0.0.1:4243"))
    assert await agent.answer() == messages.Progress(durable_step=42)
    assert await agent.answer() == messages.Parked(step=42, generation=2)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        pytest.param("kill -STOP $$", "it has been stopped by a signal", id="frozen"),
        pytest.param(
            COUNTS + "sleep 60", "it has not called stop_requested for", id="without progress"
        ),
    ],
)
async def test_a_script_that_hangs_is_killed_and_the_status_says_why(
    make: Make, command: str, reason: str
) -> None:
    agent = await make(command)
    agent.tell(PAIR)
    answers = [await agent.answer()]
    while not isinstance(answers[-1], messages.Broken):
        answers.append(await agent.answer())
    progress = answers[-2]
    assert isinstance(progress, messages.Progress)
    assert f"had to start the script again, which hung: {reason}" in (progress.failure or "")


async def test_a_script_that_is_not_known_to_make_progress_may_take_its_time(make: Make) -> None:
    agent = await make("sleep 2")
    agent.tell(PAIR)
    assert isinstance(await agent.answer(), messages.Formed)
    assert await agent.answer() == messages.ScriptEnded()


async def test_a_request_to_save_is_answered_by_why_it_cannot_be_met(make: Make) -> None:
    agent = await make(SAVES)
    agent.tell(PAIR)
    assert isinstance(await agent.answer(), messages.Formed)
    agent.writer.write(encode_line(messages.SaveRequested()))
    assert await agent.answer() == messages.Progress(save_message=SAVES_AT_STOPS)


async def test_after_a_good_run_the_status_names_no_failure(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarted_rank, "GOOD_RUN_S", 0.0)
    agent = await make(SAVES)
    agent.tell(PAIR)
    assert isinstance(await agent.answer(), messages.Formed)
    assert await agent.answer() == messages.Progress(failure="", save_message="")
