"""A team that borrows nothing new because of its budget: named where borrowing is what lacks."""

import pytest

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.reasons import BudgetReason
from cede.api.wait_reasons import WaitReason
from tests.builders.causes import causes, elastic, exceeds, lacks, queue, reasons, running, workload
from tests.builders.reports import allocation

MESSAGE = "team vision has used 104 % of its hard budget of 100: it borrows nothing; raise it"
QUEUES = (queue("vision", 4, 4, borrowing=0), queue("research", 8, 2))


def team(reason: BudgetReason, strategy: str = "LendAndBorrow") -> ComputeAllocation:
    result = allocation("vision", spec={"sharing": {"strategy": strategy}})
    budget = {"type": names.WITHIN_BUDGET, "status": "False", "reason": reason, "message": MESSAGE}
    result.status.conditions.append(budget)
    return result


USED = (team(BudgetReason.HARD_BUDGET_USED),)


@pytest.mark.parametrize(
    ("allocations", "expected"),
    [
        pytest.param(USED, WaitReason.BUDGET_USED, id="hard"),
        pytest.param((team(BudgetReason.SOFT_BUDGET_USED),), WaitReason.BORROWING_LIMIT, id="soft"),
        pytest.param(
            (team(BudgetReason.HARD_BUDGET_USED, "Lend"),),
            WaitReason.BORROWING_LIMIT,
            id="a team that never borrows",
        ),
    ],
)
def test_a_job_that_would_have_to_borrow(
    allocations: tuple[ComputeAllocation, ...], expected: WaitReason
) -> None:
    item = workload(lacks(4), gpus=8)
    assert reasons(item, queues=QUEUES, allocations=allocations)[0] is expected


def test_a_job_that_is_larger_than_the_teams_own_quota() -> None:
    cause = causes(workload(exceeds(8, 4), gpus=8), queues=QUEUES, allocations=USED)[0]
    assert cause.reason is WaitReason.BUDGET_USED
    assert cause.sentence.endswith(
        "may use 4 nvidia.com/gpu now. It borrows nothing new: team vision has used 104 % of its "
        "hard budget of 100."
    )


def test_a_job_that_does_not_grow() -> None:
    item = running("claim", "vision", 4)
    known = {"queues": QUEUES, "allocations": USED}
    assert reasons(item, elastic(4, 8), **known) == [WaitReason.BUDGET_USED]


def test_no_job_that_the_team_borrows_for_ends_for_one_of_higher_priority() -> None:
    sweeps = running("sweeps", "vision", 8, priority=10)
    queues = (queue("vision", 4, 8, borrowing=0), queue("research", 8, 2))
    item = workload(lacks(4), gpus=1, priority=90)
    first, second = causes(item, workloads=(item, sweeps), queues=queues, allocations=USED)
    assert first.reason is WaitReason.OWN_TEAM_USES_QUOTA
    assert first.sentence.endswith("has used its hard budget, and none of them ends for that.")
    assert second.reason is WaitReason.BUDGET_USED
