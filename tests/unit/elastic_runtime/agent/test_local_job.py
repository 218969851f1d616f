"""Requests to a job of this machine."""

import asyncio
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client, local_job
from elastic_runtime.agent.agent import Agent
from elastic_runtime.agent.settings import PORTS, from_environment
from elastic_runtime.contract import WRONG_SIGNATURE


def test_a_second_job_in_one_directory_is_refused_and_the_first_keeps_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("secret")
    assert local_job._lock(tmp_path)
    assert local_job.run(1, 0, tmp_path, ["train.py"], {}, is_shared=True, on_terminal=False) == 2
    assert f"a job of {tmp_path} runs already" in capsys.readouterr().err
    assert (tmp_path / "key").read_text() == "secret"


@pytest.mark.parametrize("is_link", [False, True], ids=["a readable file", "a link"])
def test_the_key_is_a_new_file_that_only_its_owner_can_read(tmp_path: Path, is_link: bool) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    other.chmod(0o644)
    if is_link:
        (tmp_path / "key").symlink_to(other)
    else:
        other.replace(tmp_path / "key")
    key = local_job._write_key(tmp_path)
    assert len(key.read_text()) == 64
    assert not key.is_symlink()
    assert key.stat().st_mode & 0o777 == 0o600
    assert not is_link or other.read_text() == "mine"


def test_a_directory_of_another_user_gets_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert local_job.run(1, 0, tmp_path, ["train.py"], {}, is_shared=True, on_terminal=False) == 2
    expected = f"{tmp_path} belongs to another user: give this job a --directory of its own"
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "key").exists()


async def test_the_control_port_of_a_local_job_is_reached_from_its_own_machine_only(
    tmp_path: Path,
) -> None:
    """By its only address: a port at all addresses is reached by any of 127.0.0.0/8."""
    env = local_job._pod_environment({}, 1, 0, local_job._write_key(tmp_path))
    # No pod of this test has this process as its parent.
    settings = replace(from_environment(env), launcher=0)
    pod = Agent(settings, ["-c", "import time; time.sleep(60)"])
    running = asyncio.create_task(pod.run())
    try:
        async with asyncio.timeout(30):
            # Nothing notifies of a file.
            while not (pod.pool.workers and (ports := local_job._ports(tmp_path))):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", ports[0])
    finally:
        pod.end(0)
        assert await running == 0
        for worker in pod.pool.workers:
            await worker.process.wait()
            worker.close()


def test_workers_connect_within_their_machine_unless_the_user_says_where(tmp_path: Path) -> None:
    def interface(env: dict[str, str]) -> str:
        return local_job._pod_environment(env, 2, 7000, tmp_path / "key")["GLOO_SOCKET_IFNAME"]

    assert interface({}) == "lo"
    assert interface({"GLOO_SOCKET_IFNAME": "eth0"}) == "eth0"


def test_pods_that_have_not_ended_get_the_report_that_another_has_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_job, "REPORT_INTERVAL_S", 0.01)
    calls = list[tuple[int, str, str]]()
    with subprocess.Popen(["true"]) as ended, subprocess.Popen(["sleep", "60"]) as late:

        async def tell(_: str, port: int, *more: object, **__: object) -> bytes:
            calls.append((port, str(more[2]), str(more[3])))
            if port == 1:
                raise control_client.Refused(409, "this pod has trained")
            late.kill()
            return b""

        (tmp_path / "key").write_text("secret")
        (tmp_path / PORTS).mkdir()
        for port in (1, 2):
            (tmp_path / PORTS / str(port)).write_text(str(port))
        monkeypatch.setattr(control_client, "call", tell)
        local_job._report_finish([ended, late], tmp_path)
        assert late.returncode == -signal.SIGKILL
    # On a busy machine more follow, until the kernel has ended both.
    assert calls[:2] == [(port, "POST", contract.FINISHED_PATH) for port in (1, 2)]


def test_request_without_a_job_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local_job.request(tmp_path, 0, "GET", contract.STATUS_PATH, b"", bytes.decode) == 1
    assert f"{tmp_path}/key is missing; start one with --local" in capsys.readouterr().err


def test_request_that_nobody_answers_names_the_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("secret")
    assert local_job.request(tmp_path, 1, "GET", contract.STATUS_PATH, b"", bytes.decode) == 1
    output = capsys.readouterr()
    assert "no answer on port 1" in output.err
    assert "check that the job runs" in output.err
    assert output.out == ""


def test_request_that_the_job_refuses_shows_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> bytes:
        raise control_client.Refused(400, "size is 1: the smallest allowed is 2, or 0 to stop")

    (tmp_path / "key").write_text("secret")
    monkeypatch.setattr(control_client, "call", refuse)
    assert local_job.request(tmp_path, 1, "PUT", contract.SIZE_PATH, b"", bytes.decode) == 1
    expected = "elastic_runtime: the job refused it: size is 1: the smallest allowed is 2"
    assert capsys.readouterr().err.startswith(expected)


# By port.
Answers = dict[int, bytes | Exception]


def answer_of_pods(directory: Path, monkeypatch: pytest.MonkeyPatch, answers: Answers) -> int:
    """Ask a job of pods that answer like this, by port; that of pod 0 is 1. Returns the exit code.

    Afterwards only those that were not asked are left of `answers`.
    """

    async def answer(_: str, port: int, *__: object, **___: object) -> bytes:
        reply = answers.pop(port)
        if isinstance(reply, Exception):
            raise reply
        return reply

    (directory / "key").write_text("secret")
    (directory / PORTS).mkdir()
    for index, port in enumerate(answers):
        (directory / PORTS / str(index)).write_text(str(port))
    # It is being written, or cannot be read.
    (directory / PORTS / ".1.draft").write_text("4")
    (directory / PORTS / "7").write_text("")
    monkeypatch.setattr(control_client, "call", answer)
    return local_job.request(directory, 1, "GET", contract.STATUS_PATH, b"", bytes.decode)


@pytest.mark.parametrize(
    "silence",
    [
        pytest.param(ConnectionRefusedError(), id="it does not run"),
        pytest.param(TimeoutError(), id="it is frozen"),
        pytest.param(control_client.Refused(503, "no coordinator is known"), id="it is cut off"),
        pytest.param(control_client.Refused(0, "not signed"), id="another process took its port"),
        pytest.param(control_client.Refused(401, WRONG_SIGNATURE), id="another job took its port"),
    ],
)
def test_another_pod_is_asked_when_pod_0_does_not_answer(
    silence: Exception,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: Answers = {1: silence, 2: b"training", 3: b"not asked"}
    assert answer_of_pods(tmp_path, monkeypatch, answers) == 0
    assert capsys.readouterr().out == "training\n"
    assert answers == {3: b"not asked"}


def test_a_job_is_found_by_its_directory_whatever_its_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(_: str, port: int, *__: object, **___: object) -> bytes:
        if port != 7000:
            raise ConnectionRefusedError
        return b"training"

    (tmp_path / "key").write_text("secret")
    (tmp_path / PORTS).mkdir()
    (tmp_path / PORTS / "0").write_text("7000")
    monkeypatch.setattr(control_client, "call", answer)
    assert local_job.request(tmp_path, 1, "GET", contract.STATUS_PATH, b"", bytes.decode) == 0
    assert capsys.readouterr().out == "training\n"


def test_a_refusal_of_the_job_is_final(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Answers = {
        1: control_client.Refused(409, "size 2 holds"),
        2: b"not asked",
    }
    assert answer_of_pods(tmp_path, monkeypatch, answers) == 1
    assert "size 2 holds" in capsys.readouterr().err
    assert answers == {2: b"not asked"}


def test_a_job_that_elects_says_so_though_pod_0_does_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some pods are asked, not all of them."""
    elects = control_client.Refused(503, "no coordinator is known")
    answers: Answers = {1: ConnectionRefusedError(), **dict.fromkeys(range(2, 8), elects)}
    assert answer_of_pods(tmp_path, monkeypatch, answers) == 1
    assert "no coordinator is known" in capsys.readouterr().err
    assert len(answers) == 7 - local_job.MAX_TRIES


def test_a_job_that_has_ended_is_not_taken_for_another_one_at_its_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_job = control_client.Refused(401, WRONG_SIGNATURE)
    assert answer_of_pods(tmp_path, monkeypatch, {1: other_job, 2: ConnectionRefusedError()}) == 1
    error = capsys.readouterr().err
    assert "no answer on port 1: another job listens there; check that the job runs" in error


def request_state(directory: Path, monkeypatch: pytest.MonkeyPatch, reply: bytes) -> int:
    """Ask a job that replies this for its state. Returns the exit code."""

    async def answer(*_: object, **__: object) -> bytes:
        return reply

    def show(reply: bytes) -> str:
        return contract.decode_status(reply).state

    (directory / "key").write_text("secret")
    monkeypatch.setattr(control_client, "call", answer)
    return local_job.request(directory, 1, "GET", contract.STATUS_PATH, b"", show)


def test_reply_is_printed_as_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request_state(tmp_path, monkeypatch, b"{}") == 0
    assert capsys.readouterr().out == "starting\n"


def test_reply_of_a_version_that_is_not_understood_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request_state(tmp_path, monkeypatch, b'{"version": 9, "oldest": 9}') == 1
    assert "upgrade this side" in capsys.readouterr().err
