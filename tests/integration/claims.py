"""Claims for accelerators that others use, wait for and ask for meanwhile, on one fake node."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cede.api import names
from cede.api.objects import JOBS, Json
from cede.kube.connection import connect
from tests.integration.admin import FAKE, TIMEOUT_S, Admin, governed
from tests.integration.user import AS_SCHEDULER

OWNER = "gov-owner"
BORROWER = "gov-borrower"
LENDER = "gov-lender"
TEAMS = (OWNER, BORROWER, LENDER)
CLASSES = [
    {"name": "urgent", "weight": 100},
    {"name": "inference", "weight": 80},
    {"name": "training", "weight": 50},
    {"name": "sweep", "weight": 10},
]
ACCELERATORS = 8
ARRIVAL_INTERVAL_S = 0.1
MAX_ARRIVALS = 60


Rigid = tuple[str, str, int]
"""The team, name and accelerators of a job that cannot shrink, in class `sweep`."""


@dataclass(frozen=True)
class Case:
    """Claims, and what runs and waits before them. All eight accelerators are in use."""

    name: str
    # what each of `TEAMS` owns
    owned: tuple[int, int, int]
    rigid: tuple[Rigid, ...]
    # the team of the elastic job, its sizes, and the size it has
    elastic: tuple[str, str, int]
    # team → accelerators and class of its claim
    claims: Mapping[str, tuple[int, str]]
    # the team of the jobs that arrive: it borrows no more than the claimant, so Kueue prefers them
    arrives: str = BORROWER
    # accelerators of a job that waits before the owner's claim
    hopeless: int = 0
    # True if that job arrives while targets save, and is more urgent than the claim
    hopeless_is_late: bool = False


WITHIN_OWN = Case(
    "within its own",
    owned=(4, 2, 2),
    rigid=((LENDER, "rigid-1", 2), (LENDER, "rigid-2", 2)),
    elastic=(BORROWER, "2-4", 4),
    claims={OWNER: (4, "training")},
)
PAST_ITS_OWN = Case(
    "past its own",
    owned=(4, 2, 2),
    rigid=(
        (OWNER, "rigid-1", 1),
        (OWNER, "rigid-2", 1),
        (BORROWER, "other-1", 2),
        (LENDER, "other-2", 1),
    ),
    elastic=(OWNER, "2-3", 3),
    claims={OWNER: (3, "inference")},
)
CASES = (
    WITHIN_OWN,
    replace(WITHIN_OWN, name="behind a hopeless job", hopeless=8),
    replace(WITHIN_OWN, name="behind a late hopeless job", hopeless=8, hopeless_is_late=True),
    PAST_ITS_OWN,
    Case(
        "borrowing",
        owned=(1, 1, 1),
        rigid=(
            (OWNER, "other-1", 1),
            (BORROWER, "rigid", 1),
            (LENDER, "other-2", 2),
        ),
        elastic=(BORROWER, "3-4", 4),
        claims={OWNER: (2, "sweep")},
        arrives=LENDER,
    ),
    Case(
        "within its own and borrowing, at once",
        owned=(2, 2, 2),
        rigid=tuple((BORROWER, f"rigid-{number}", 1) for number in range(4)),
        elastic=(BORROWER, "2-4", 4),
        claims={OWNER: (2, "training"), LENDER: (3, "training")},
    ),
)


@contextmanager
def governed_teams(cluster: Any) -> Iterator[Admin]:
    """A node of eight accelerators and the priority classes. Afterwards the teams are gone."""
    with governed(cluster, nodes=1) as admin:
        admin.apply_policy(priorityClasses=CLASSES)
        yield admin
        admin.delete_teams(*TEAMS)


def allocate(admin: Admin, case: Case) -> None:
    for team, accelerators in zip(TEAMS, case.owned, strict=True):
        preempts_own = "LowerPriority" if team == OWNER else "Never"
        admin.apply_team(team, accelerators, preemptOwnTasks=preempts_own)


def fill(admin: Admin, case: Case) -> None:
    """All accelerators are in use, by jobs that cannot shrink and by an elastic one."""
    team, sizes, size = case.elastic
    admin.submit(*(admin.job(*job, "sweep") for job in case.rigid))
    submit_elastic(admin, team, sizes, size)
    for owner, job, _ in case.rigid:
        admin.wait_for_admission(owner, job)

    def is_full() -> bool:
        queues = [admin.cluster_queue(name) for name in TEAMS]
        return sum(used(queue) for queue in queues) == ACCELERATORS

    admin.cluster.until(is_full, "all accelerators to be in use", TIMEOUT_S)


def submit_elastic(admin: Admin, team: str, sizes: str, size: int, grace: str = "2s") -> None:
    """The job `elastic` is admitted and has grown to this size."""
    admin.submit(elastic_job(team, sizes, size, grace))
    admin.wait_for_admission(team, "elastic")
    patch = json.dumps({"spec": {"parallelism": size, "completions": size}})
    resize = ("patch", "job", "elastic", "-n", team, "--type=merge", "-p", patch)
    admin.cluster.kubectl(*resize, *AS_SCHEDULER)
    is_ready = f"--for=jsonpath={{.status.ready}}={size}"
    admin.cluster.kubectl("wait", "job/elastic", "-n", team, is_ready, f"--timeout={TIMEOUT_S}s")


def elastic_job(team: str, sizes: str, size: int, grace: str) -> Json:
    """On fake nodes nobody answers for it: it is resized when its grace period is over."""
    pod = {
        "restartPolicy": "Never",
        "tolerations": [FAKE],
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none", "resources": {"limits": {names.GPU: "1"}}}],
    }
    annotations = {"cede.dev/sizes": sizes, names.GRACE: grace}
    labels = {names.PRIORITY_CLASS: "training"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "elastic",
            "namespace": team,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "completionMode": "Indexed",
            "parallelism": size,
            "completions": size,
            "template": {"spec": pod},
        },
    }


def submit_hopeless(admin: Admin, case: Case, *, late: bool) -> None:
    """A job that its team could never have: it comes before its claim, or later and more urgent."""
    if not case.hopeless or case.hopeless_is_late != late:
        return
    priority = "urgent" if late else "training"
    admin.submit(admin.job(OWNER, "hopeless", case.hopeless, priority))
    if not late:
        admin.wait_until_pending(OWNER, "hopeless")


def claims(admin: Admin, case: Case) -> Iterator[Json]:
    for team, (size, priority) in case.claims.items():
        yield admin.job(team, "claim", size, priority)


def wait_for_cessions(admin: Admin, case: Case) -> None:
    admin.cluster.until(
        lambda: [cession_of_claim(admin, team) for team in case.claims], "the Cessions", TIMEOUT_S
    )


def waiting(admin: Admin, team: str) -> Iterator[Json]:
    """They would take any accelerator that is released."""
    for number in range(3):
        yield admin.job(team, f"waits-{number}", 1, "sweep")


def used(queue: Json) -> int:
    """Accelerators that Kueue counts in the ClusterQueue."""
    return sum(
        int(resource["total"])
        for flavor in queue["status"].get("flavorsUsage", [])
        for resource in flavor["resources"]
        if resource["name"] == names.GPU
    )


@contextmanager
def arrivals(admin: Admin, team: str) -> Iterator[None]:
    """Meanwhile an urgent job of one accelerator arrives again and again."""
    is_over = threading.Event()

    async def arrive() -> None:
        async with connect(manager="users", kubeconfig=str(admin.cluster.kubeconfig)) as client:
            for number in range(MAX_ARRIVALS):
                if is_over.is_set():
                    return
                job = admin.job(team, f"arrives-{number}", 1, "urgent")
                await client.create(JOBS, job, namespace=team)
                await asyncio.sleep(ARRIVAL_INTERVAL_S)

    thread = threading.Thread(target=lambda: asyncio.run(arrive()))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# --- what must hold -------------------------------------------------------------------------------
def robbed_by(admin: Admin) -> set[str]:
    """Jobs that waited with the claim, or arrived after it, and were admitted at any time."""
    return {
        f"{team}/{job}"
        for team in TEAMS
        for job in admitted_at_any_time(admin, team)
        if job.startswith(("waits", "arrives", "hopeless"))
    }


def admitted_at_any_time(admin: Admin, team: str) -> set[str]:
    """As Kueue's events say: its condition says it of other jobs too, with alpha feature gates."""
    selector = ("-n", team, "--field-selector=reason=Admitted")
    events = admin.cluster.kubectl_json("get", "events", *selector)["items"]
    admitted = {event["involvedObject"]["name"] for event in events}
    return {
        job
        for job, workload in admin.workloads_by_job(team).items()
        if workload["metadata"]["name"] in admitted
    }


def cession_of_claim(admin: Admin, team: str) -> Json:
    workload = admin.workloads_by_job(team).get("claim")
    assert workload, f"no Workload of the claim of {team}"
    uid = workload["metadata"]["uid"]
    items = admin.cluster.kubectl_json("get", "cessions")["items"]
    cessions = [item for item in items if item["spec"]["preemptor"]["uid"] == uid]
    assert len(cessions) == 1, f"{len(cessions)} Cessions of the claim of {team}"
    return dict(cessions[0])


def left_over(admin: Admin) -> list[str]:
    """What keeps capacity for a claim and should be gone."""
    selector = ("-l", names.GUARD, "-A", "-o", "name")
    guards = admin.cluster.kubectl("get", "jobs,localqueues,clusterqueues", *selector).split()
    queues = [admin.cluster_queue(name) for name in TEAMS]
    strict = [q for q in queues if q["spec"]["queueingStrategy"] == "StrictFIFO"]
    private = [q for q in queues if names.PRIVATE_QUOTA in q["metadata"].get("annotations", {})]
    return guards + [queue["metadata"]["name"] for queue in strict + private]
