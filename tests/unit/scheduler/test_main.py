"""The command line: a dump of what the scheduler observes explains its plan anywhere. How it
leads."""

from pathlib import Path

import pytest

from cede.api.policy import PolicySpec, Preemption
from cede.kube.client import REQUEST_S
from scheduler.__main__ import LEADERSHIP, dump, explain, read_flags
from scheduler.snapshot.snapshot import RawObjects
from scheduler.snapshot_dump import write
from tests.fakes.api_server import ApiServer
from tests.fakes.runtime import Runtime, loopback_address
from tests.harness.scheduler import TwoTeams

ADDRESS = loopback_address(1)


async def test_a_dump_explains_the_plan_without_the_cluster(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teams = TwoTeams(server)
    uid = teams.job("research", "gpt", 8, "2-8", ADDRESS)
    async with Runtime(ADDRESS, "research", uid, 8), server.client() as client:
        teams.job("vision", "inference", 4)
        text = await dump(client)
    assert server.writes() == []
    file = tmp_path / "dump.json"
    file.write_text(text)
    explain(str(file))
    printed = capsys.readouterr().out
    assert printed.startswith(
        "inference (vision) reclaims its team's own quota: it lacks 4 nvidia.com/gpu; gpt "
        "(research) shrinks from 8 to 4\nOpenCession "
    )
    assert "RequestSize job=research/gpt size=8" in printed, "the runtime's status is in the dump"


def test_a_plan_without_actions_is_explained_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.json"
    file.write_text(write(RawObjects(), PolicySpec(), 0.0))
    explain(str(file))
    assert capsys.readouterr().out == "nothing to do\n"


def test_the_flags_of_a_dump() -> None:
    flags = read_flags(["--dump", "-", "--identity", "s-1"])
    assert (flags.dump, flags.snapshot, flags.service.identity) == ("-", "", "s-1")


def test_a_stalled_leader_is_replaced_after_a_slow_request_and_before_kueue_preempts() -> None:
    limit_s = LEADERSHIP.stalled_after_s
    assert 2 * REQUEST_S <= limit_s <= Preemption().watchdogSeconds / 2
