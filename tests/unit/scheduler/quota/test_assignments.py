"""Which flavors a Workload may get, in Kueue's order, and which ones Kueue takes now."""

from collections import Counter

import pytest

from cede.api.resources import Resources
from scheduler.quota.assignments import MAX_ASSIGNMENTS, assign, assignments
from scheduler.quota.cohort import CohortQuota, Queue, ResourceGroup, ResourceQuota
from scheduler.quota.pod_sets import PodSetRequest
from tests.builders.scheduler import GPU, queue

GROUPS = (ResourceGroup((GPU,), ("a100", "h100")), ResourceGroup(("cpu",), ("main",)))


def team(
    name: str = "q", a100: int = 4, h100: int = 4, used: dict[str, int] | None = None
) -> Queue:
    return Queue(
        name,
        cohort="cede",
        quotas={
            ("a100", GPU): ResourceQuota(a100),
            ("h100", GPU): ResourceQuota(h100),
            ("main", "cpu"): ResourceQuota(8000),
        },
        usage=Counter({(flavor, GPU): amount for flavor, amount in (used or {}).items()}),
        groups=GROUPS,
    )


def pods(count: int, gpus: int = 0, cpu: int = 0, *, without: str = "") -> PodSetRequest:
    requests = {resource: amount for resource, amount in ((GPU, gpus), ("cpu", cpu)) if amount}
    unsuitable = frozenset({without} - {""})
    return PodSetRequest("main", count, Resources(requests), unsuitable)


def test_every_choice_of_flavors_is_one_request() -> None:
    assert list(assignments([pods(2, 1, 500)], team())) == [
        Counter({("a100", GPU): 2, ("main", "cpu"): 1000}),
        Counter({("h100", GPU): 2, ("main", "cpu"): 1000}),
    ]


def test_there_is_no_request_for_a_resource_the_queue_does_not_cover() -> None:
    assert list(assignments([pods(2, 1, 500)], queue("a"))) == []


def test_flavors_on_which_the_pods_may_not_run_are_no_choice() -> None:
    assert list(assignments([pods(2, 1, without="a100")], team())) == [Counter({("h100", GPU): 2})]


def test_pod_sets_have_flavors_of_their_own() -> None:
    driver = pods(1, cpu=4000)
    workers = pods(2, 1, without="a100")
    assert list(assignments([driver, workers], team())) == [
        Counter({("main", "cpu"): 4000, ("h100", GPU): 2})
    ]


def test_the_number_of_choices_is_limited() -> None:
    assert len(list(assignments([pods(1, 1)] * 12, team()))) == MAX_ASSIGNMENTS


def test_kueue_counts_pods_where_a_queue_covers_them() -> None:
    counted = Queue("q", groups=(ResourceGroup(("pods",), ("main",)),))
    assert list(assignments([pods(3)], counted)) == [Counter({("main", "pods"): 3})]


# --- what Kueue assigns now -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pod_sets", "own", "usage"),
    [
        pytest.param([pods(4, 1)], team(), {"a100": 4}, id="the first that fits"),
        pytest.param([pods(4, 1)], team(used={"a100": 1}), {"h100": 4}, id="else the second"),
        pytest.param(
            [pods(3, 1), pods(3, 1)],
            team(),
            {"a100": 3, "h100": 3},
            id="beside the pod sets before it",
        ),
        pytest.param(
            [pods(3, 1), pods(3, 1, without="h100")],
            team(),
            None,
            id="Kueue does not move a pod set to make room for the next",
        ),
        pytest.param(
            [pods(4, 1)], team(used={"a100": 1, "h100": 2}), None, id="others would have to release"
        ),
        pytest.param([pods(2, 1, 500)], queue("q"), None, id="a resource that is not covered"),
        pytest.param([pods(1, 0)], team(), {}, id="nothing requested"),
        pytest.param(
            [pods(1, cpu=0)], team(used={"a100": 9}), {}, id="nothing, where too much is in use"
        ),
    ],
)
def test_what_kueue_assigns_now(
    pod_sets: list[PodSetRequest], own: Queue, usage: dict[str, int] | None
) -> None:
    assigned = assign(pod_sets, "q", CohortQuota({"q": own}))
    expected = None if usage is None else {(flavor, GPU): n for flavor, n in usage.items()}
    assert assigned == expected
