"""What targets release reaches its preemptor, for every kind of claim, while others wait for it and
new jobs arrive.

`make test` tries each kind once, `make test-long` 20 times (CEDE_RESERVATIONS), and 20 times
without Kueue's fair sharing (CEDE_FAIR_SHARING=off).
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cede.api.objects import Json, unix
from tests.integration.admin import TIMEOUT_S, Admin
from tests.integration.claims import (
    BORROWER,
    CASES,
    LENDER,
    OWNER,
    TEAMS,
    Case,
    admitted_at_any_time,
    allocate,
    arrivals,
    cession_of_claim,
    claims,
    fill,
    governed_teams,
    left_over,
    robbed_by,
    submit_elastic,
    submit_hopeless,
    wait_for_cessions,
    waiting,
)
from tests.integration.kueue_configuration import kueue_configured_by
from tests.integration.user import AS_SCHEDULER
from tests.marks import in_long

pytestmark = pytest.mark.cluster
RUNS = int(os.environ.get("CEDE_RESERVATIONS", "1"))
IS_FAIR = os.environ.get("CEDE_FAIR_SHARING", "on") != "off"


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed_teams(cluster) as admin:
        if IS_FAIR:
            yield admin
            return
        with kueue_configured_by(cluster, lambda configuration: configuration.pop("fairSharing")):
            yield admin


@pytest.fixture(
    params=[*CASES[:1], *in_long(*CASES[1:3]), *CASES[3:5], *in_long(*CASES[5:])],
    ids=lambda case: case.name,
)
def case(admin: Admin, request: pytest.FixtureRequest) -> Case:
    case: Case = request.param
    allocate(admin, case)
    return case


@pytest.mark.parametrize("run", range(RUNS))
def test_what_is_released_reaches_its_claim(admin: Admin, case: Case, run: int) -> None:
    try:
        fill(admin, case)
        admin.submit(*waiting(admin, BORROWER))
        submit_hopeless(admin, case, late=False)
        admin.submit(*claims(admin, case))
        wait_for_cessions(admin, case)
        with arrivals(admin, case.arrives):
            submit_hopeless(admin, case, late=True)
            admin.submit(*waiting(admin, OWNER))
            for team in case.claims:
                admin.wait_for_admission(team, "claim")
        assert all("claim" in admitted_at_any_time(admin, team) for team in case.claims)
        assert robbed_by(admin) == set()
        cessions = [cession_of_claim(admin, team) for team in case.claims]
        targets = [target for cession in cessions for target in cession["spec"]["targets"]]
        assert {target["how"] for target in targets} == {"Shrink", "Stop"}
        report(case, cessions)
        admin.cluster.until(lambda: left_over(admin) == [], "nothing to be left over", 10)
    finally:
        admin.delete_jobs(*TEAMS)


def test_a_team_within_its_own_quota_does_not_wait_while_a_target_of_another_claim_saves(
    admin: Admin,
) -> None:
    """It lends nothing, and a StrictFIFO queue of another team keeps it out all the same."""
    admin.apply_team(OWNER, 4)
    admin.apply_team(BORROWER, 2)
    admin.apply_team(LENDER, 2, sharing={"strategy": "DontLend"})
    try:
        submit_elastic(admin, BORROWER, "2-6", 6, grace="10m")
        admin.submit(admin.job(OWNER, "claim", 4, "training"))
        admin.cluster.until(lambda: is_strict(admin, OWNER), "a StrictFIFO queue", TIMEOUT_S)
        admin.submit(admin.job(LENDER, "bystander", 2, "training"))
        admin.wait_for_admission(LENDER, "bystander")
        assert not cession_of_claim(admin, OWNER)["status"].get("releasedTime")
        admin.cluster.until(lambda: is_strict(admin, OWNER), "it to be StrictFIFO again", TIMEOUT_S)
    finally:
        admin.delete_jobs(*TEAMS)


def is_strict(admin: Admin, team: str) -> bool:
    return bool(admin.cluster_queue(team)["spec"]["queueingStrategy"] == "StrictFIFO")


def test_the_scheduler_makes_and_deletes_no_queue_but_those_of_guards(admin: Admin) -> None:
    admin.apply_team(OWNER, 4)
    queue = f"clusterqueue/{OWNER}"
    spec = admin.cluster.kubectl("get", queue, "-o", "json").replace(OWNER, "another")
    for args, stdin in ((("create", "-f", "-"), spec), (("delete", queue), None)):
        with pytest.raises(AssertionError, match="ClusterQueues of guards only"):
            admin.cluster.kubectl(*args, "--dry-run=server", *AS_SCHEDULER, stdin=stdin)


def report(case: Case, cessions: Iterable[Json]) -> None:
    """Seconds from the last release to the admission, for `pytest -s`."""
    for cession in cessions:
        status = cession["status"]
        last = max(unix(target["releasedTime"]) for target in status["targets"])
        print(f"{case.name}: {unix(status['admittedTime']) - last:.2f} s after the last release")
