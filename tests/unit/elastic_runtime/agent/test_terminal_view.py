"""A local job on a terminal: the live line, and what stands above it."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime.agent.terminal_view import ERASE, TerminalView, read_record
from elastic_runtime.contract import State, Status
from elastic_runtime.json_logging import CONTINUES, POD_ENDS


def record(level: str, message: str, **facts: object) -> str:
    values = {"time": 1.5, "level": level, "logger": "elastic_runtime.agent", "message": message}
    return json.dumps(values | facts)


@pytest.fixture
def streams() -> tuple[io.StringIO, io.StringIO]:
    return io.StringIO(), io.StringIO()


@pytest.fixture
def view(tmp_path: Path, streams: tuple[io.StringIO, io.StringIO]) -> Iterator[TerminalView]:
    view = TerminalView(*streams, tmp_path / "log.jsonl")
    yield view
    view.end(0)


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1: 0.9",
        "{not json}",
        '{"loss": 0.5, "level": "INFO"}',
        "[1]: epoch 1",
        "[[1]: {}",
    ],
)
def test_what_a_script_prints_is_no_record(text: str) -> None:
    assert read_record(text) is None


@pytest.mark.parametrize("name", ["", "[1]: ", "[1.0]: "])
def test_a_record_is_known_also_after_the_name_of_its_worker(name: str) -> None:
    values = read_record(name + record("INFO", "saved", step=5))
    assert values is not None
    assert (values["message"], values["step"]) == ("saved", 5)


def test_what_is_written_stands_above_the_live_line(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO]
) -> None:
    stdout, stderr = streams
    view.show("step 5")
    view.copy(io.BytesIO(b"hello\n"), stdout)
    assert stdout.getvalue() == "hello\n"
    assert stderr.getvalue() == f"{ERASE}step 5{ERASE}step 5"


def test_a_line_that_would_wrap_is_cut(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO]
) -> None:
    view.show("x" * 200)
    assert streams[1].getvalue() == ERASE + "x" * 79


def test_only_warnings_of_the_log_are_shown_and_all_of_it_is_kept(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO], tmp_path: Path
) -> None:
    lines = [
        record("INFO", "pod up", index=1),
        record("WARNING", "rank died", code=1),
        record("ERROR", "saving failed", error="Traceback\nOSError"),
    ]
    stdout, stderr = streams
    view.copy(io.BytesIO("\n".join(lines).encode()), stdout)
    assert stdout.getvalue() == ""
    assert stderr.getvalue().replace(ERASE, "") == (
        "elastic_runtime: rank died (code 1)\nelastic_runtime: saving failed\nTraceback\nOSError\n"
    )
    assert (tmp_path / "log.jsonl").read_text().splitlines() == lines


def test_a_job_that_was_meant_to_be_new_shows_that_it_continues(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO]
) -> None:
    line = record("INFO", CONTINUES, step=40, path="save")
    view.copy(io.BytesIO(line.encode()), streams[0])
    expected = "elastic_runtime: continues from a checkpoint (step 40, path save)\n"
    assert streams[1].getvalue().replace(ERASE, "") == expected


def test_a_job_that_is_continued_keeps_the_log_of_the_one_before(
    streams: tuple[io.StringIO, io.StringIO], tmp_path: Path
) -> None:
    lines = [record("INFO", "saved"), record("INFO", "pod up")]
    for line in lines:
        view = TerminalView(*streams, tmp_path / "log.jsonl")
        view.copy(io.BytesIO(line.encode()), streams[0])
        view.end(0)
    assert (tmp_path / "log.jsonl").read_text().splitlines() == lines


def test_of_a_bar_that_is_drawn_again_and_again_the_last_state_is_shown(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO]
) -> None:
    view.copy(io.BytesIO(b"10%\r20%\r100%\r\n"), streams[0])
    assert streams[0].getvalue() == "100%\n"


@pytest.mark.parametrize("error", [BrokenPipeError(), UnicodeEncodeError("ascii", "ä", 0, 1, "")])
def test_output_that_cannot_be_shown_does_not_stop_its_pod(
    view: TerminalView, error: Exception
) -> None:
    """As under `| head`: the pipe is read on."""

    class Console(io.StringIO):
        def write(self, text: str) -> int:
            if text == "a\n":
                raise error
            return super().write(text)

    console = Console()
    view.copy(io.BytesIO(b"a\nb\n"), console)
    assert console.getvalue() == "b\n"


def test_the_live_line_follows_the_job_until_its_end(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastic_runtime.agent.terminal_view.INTERVAL_S", 0.001)
    answers = iter(
        [OSError(), Status(state=State.TRAINING, step=7, loss=0.5, busy="training", size=2)]
    )
    followed = []

    def ask() -> Status:
        answer = next(answers, None)
        followed.append(answer)
        if isinstance(answer, Status):
            return answer
        raise OSError

    script = "print('hello'); import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as pod:
        view.start([pod], ask)
        while len(followed) < 3:
            assert pod.poll() is None
        assert pod.stdin
        pod.stdin.close()
        pod.wait()
        view.end(0)
    stdout, stderr = streams
    assert stdout.getvalue() == "hello\n"
    assert "step 7  loss 0.5  2 pods  training" in stderr.getvalue()
    assert stderr.getvalue().split(ERASE)[-1].startswith("the job has finished; its log is in /")


def test_the_end_names_the_newest_step_that_a_pod_reports_as_durable(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO]
) -> None:
    lines = [
        record("INFO", POD_ENDS, index=0, step=41, durable_step=41),
        record("INFO", POD_ENDS, index=1, step=41, durable_step=30),
        record("INFO", POD_ENDS, index=2, step=None, durable_step="of a script"),
    ]
    view.copy(io.BytesIO("\n".join(lines).encode()), streams[0])
    view.end(43)
    assert "the same command continues it after step 41" in streams[1].getvalue()


def test_a_job_that_answers_no_more_is_not_shown_as_if_it_trained(
    view: TerminalView, streams: tuple[io.StringIO, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastic_runtime.agent.terminal_view.INTERVAL_S", 0.001)
    monkeypatch.setattr("elastic_runtime.agent.terminal_view.SILENCE_S", 0.01)
    answers = iter([Status(state=State.TRAINING, step=7, loss=0.5, busy="training", size=2)])

    def ask() -> Status:
        if answer := next(answers, None):
            return answer
        raise OSError

    with (
        subprocess.Popen(["sh", "-c", "kill -KILL $$"], stdout=subprocess.PIPE) as killed,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running,
    ):
        killed.wait()
        view.start([killed, running], ask)
        line = "no coordinator for 0 s: pod 0 was killed, 1 of 2 is no majority"
        while line not in streams[1].getvalue():
            assert running.poll() is None
        assert running.stdin
        running.stdin.close()
        running.wait()
