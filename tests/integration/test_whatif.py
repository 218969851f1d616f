"""What `cede whatif` predicts is what then happens on a real Kueue, with the real scheduler."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api.objects import Json
from tests.integration.admin import TIMEOUT_S, TYPE, Admin
from tests.integration.claims import (
    CASES,
    OWNER,
    TEAMS,
    Case,
    allocate,
    cession_of_claim,
    claims,
    fill,
    governed_teams,
)
from tests.marks import in_long

pytestmark = pytest.mark.cluster
EFFECT_OF = {"Shrink": "Shrinks", "Stop": "Stops"}
SINGLE = [case for case in CASES if len(case.claims) == 1 and not case.hopeless]


@pytest.fixture(scope="module")
def governed(cluster: Any) -> Iterator[Admin]:
    with governed_teams(cluster) as admin:
        yield admin


@pytest.fixture
def admin(governed: Admin) -> Iterator[Admin]:
    yield governed
    governed.delete_jobs(*TEAMS)


def whatif(admin: Admin, *words: str, stdin: Json | None = None) -> Json:
    """The answer of the command to whoever runs the tests."""
    command = [sys.executable, "-m", "cede.cli", "whatif", *words, "-o", "json"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(admin.cluster.kubeconfig)],
        input=json.dumps(stdin or {}),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: Json = json.loads(done.stdout)
    return answer


def taken(answer: Json) -> set[tuple[str, int, int, str, str]]:
    """What is predicted to be taken back: job, sizes, how, and by which rule."""
    return {
        (change["job"], change["from_size"], change["to_size"], change["effect"], change["rule"])
        for change in answer["changes"]
        if change["rule"] and change["effect"] in EFFECT_OF.values()
    }


def targets_of(cession: Json) -> set[tuple[str, int, int, str, str]]:
    """The same of a Cession."""
    spec = cession["spec"]
    return {
        (t["job"], t["fromSize"], t["toSize"], EFFECT_OF[t["how"]], spec["reason"])
        for t in spec["targets"]
    }


@pytest.mark.parametrize("case", [SINGLE[0], *in_long(*SINGLE[1:])], ids=lambda case: case.name)
def test_a_claim_takes_from_whom_it_was_predicted_to(admin: Admin, case: Case) -> None:
    allocate(admin, case)
    fill(admin, case)
    (claim,) = claims(admin, case)
    team = claim["metadata"]["namespace"]
    answer = whatif(admin, "submit", "-f", "-", stdin=claim)
    assert answer["job"]["state"] == "AdmittedAfterTakeBack"
    assert admin.workloads_by_job(team).get("claim") is None, "nothing was created"
    admin.submit(claim)
    admin.wait_for_admission(team, "claim")
    cession = cession_of_claim(admin, team)
    assert taken(answer) == targets_of(cession)
    assert answer["job"]["why"] == [cession["spec"]["why"]]


def test_a_job_that_fits_is_admitted_as_predicted(admin: Admin) -> None:
    allocate(admin, SINGLE[0])
    job = admin.job(OWNER, "fits", 2, "training")
    answer = whatif(admin, "submit", "-f", "-", stdin=job)
    assert (answer["job"]["state"], answer["changes"][0]["rule"]) == ("Admitted", "")
    admin.submit(job)
    admin.wait_for_admission(OWNER, "fits")


def test_a_job_that_can_never_fit_waits_as_predicted(admin: Admin) -> None:
    allocate(admin, SINGLE[0])
    job = admin.job(OWNER, "too-much", 9, "training", pods=9)
    answer = whatif(admin, "submit", "-f", "-", stdin=job)
    assert (answer["job"]["state"], answer["changes"]) == ("NeverFits", [])
    admin.submit(job)
    admin.wait_until_pending(OWNER, "too-much")


@pytest.mark.parametrize(
    "sharing", [{"strategy": "Lend"}, *in_long({}, {"borrowLimitPercent": 50})]
)
def test_an_allocation_gives_the_quota_that_was_predicted(
    admin: Admin, sharing: dict[str, Any]
) -> None:
    """The owner has less than before, and may use as much as was predicted."""
    allocate(admin, SINGLE[0])
    spec = {"quotas": [{"instanceType": TYPE, "accelerators": 2}], "sharing": sharing}
    body = {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ComputeAllocation",
        "metadata": {"name": OWNER},
        "spec": spec,
    }
    answer = whatif(admin, "allocation", "-f", "-", stdin=body)
    (predicted,) = [team["after"] for team in answer["teams"] if team["team"] == OWNER]
    before = admin.accelerator_quota(OWNER)
    assert before == "4", "nothing was written"
    admin.apply_team(OWNER, 2, sharing=sharing)
    admin.cluster.until(
        lambda: f"{admin.accelerator_quota(OWNER)} gpu" == predicted["owns"],
        f"the queue to own {predicted['owns']}",
        TIMEOUT_S,
    )
    most = int(predicted["available"].split()[0])
    admin.submit(admin.job(OWNER, "most", most, "training", pods=most))
    admin.wait_for_admission(OWNER, "most")
    admin.submit(admin.job(OWNER, "more", 1, "training"))
    admin.wait_until_pending(OWNER, "more")


def test_a_cordoned_node_leaves_the_quota_that_was_predicted(admin: Admin) -> None:
    allocate(admin, SINGLE[0])
    answer = whatif(admin, "drain", "gov-1")
    predicted = {team["team"]: team["after"]["owns"] for team in answer["teams"]}
    assert predicted == dict.fromkeys(TEAMS, "0 gpu")
    admin.cluster.kubectl("cordon", "gov-1")
    try:
        admin.cluster.until(
            lambda: {f"{admin.accelerator_quota(team)} gpu" for team in TEAMS} == {"0 gpu"},
            "no team to own anything",
            TIMEOUT_S,
        )
    finally:
        admin.cluster.kubectl("uncordon", "gov-1")


def test_whoever_may_not_list_pods_gets_one_line(admin: Admin, tmp_path: Path) -> None:
    """A service account of a team has no rights in others' namespaces."""
    allocate(admin, SINGLE[0])
    config = json.loads(admin.cluster.kubectl("config", "view", "--raw", "-o", "json"))
    token = admin.cluster.kubectl("create", "token", "default", "-n", OWNER).strip()
    config["users"][0]["user"] = {"token": token}
    file = tmp_path / "member.conf"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "whatif", "drain", "gov-1", "--kubeconfig", str(file)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("whatif: you may not list workloads, jobs, ")
