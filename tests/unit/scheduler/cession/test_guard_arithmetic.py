"""With a guard and private quota, one preemptor fits and nobody else gets more."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.actions import SetPrivateQuota
from scheduler.cession import guard_plan
from scheduler.quota.cohort import CohortQuota, Queue
from scheduler.snapshot.cluster_quota import as_before, read_quotas
from scheduler.snapshot.guards import Guard
from tests.builders.guards import written
from tests.builders.scheduler import KEY, cession, cohort_quota, gpus, pending, queue, snapshot


@given(
    nominal=st.integers(0, 8),
    used=st.integers(0, 8),
    wanted=st.integers(1, 8),
    limit=st.none() | st.integers(0, 8),
    other_nominal=st.integers(0, 8),
    other_used=st.integers(0, 8),
)
def test_with_private_quota_the_preemptor_fits_and_nobody_else_gets_more(
    nominal: int,
    used: int,
    wanted: int,
    limit: int | None,
    other_nominal: int,
    other_used: int,
) -> None:
    vision = replace(queue("vision", nominal, used, None, limit), written=written(nominal, limit))
    research = queue("research", other_nominal, other_used)
    quota = cohort_quota(vision, research)
    current = snapshot(quota, pending=[pending(pods=wanted)])
    made = guard_plan.create(cession(), current)
    own = Guard("c-1", in_cohort=True, is_admitted=True, usage=gpus(made.amounts.get(KEY, 0)))
    current = replace(current, guards=(own,))
    given_quota = guard_plan.give_private_quota(cession(), current)
    if given_quota is None:
        assert not quota.fits("vision", gpus(wanted))
        return
    private = _with_groups(vision, given_quota)
    after = replace(quota, queues={**quota.queues, "vision": private})
    kept = own.usage[KEY]
    assert _available(after, "vision", kept) >= wanted
    assert _available(after, "research", kept) <= max(0, _available(quota, "research", 0))


def _with_groups(vision: Queue, action: SetPrivateQuota) -> Queue:
    [resource] = action.resource_groups[0]["flavors"][0]["resources"]
    limit = resource.get("lendingLimit")
    groups = written(int(resource["nominalQuota"]))
    quotas = read_quotas(groups)
    quotas[KEY] = replace(quotas[KEY], lending_limit=None if limit is None else int(limit))
    return replace(vision, quotas=as_before(quotas, None))


def _available(quota: CohortQuota, name: str, kept: int) -> int:
    """Guards use quota that nobody owns."""
    guard = replace(queue("guard", 0, kept, 0, 0), managed=False)
    return replace(quota, queues={**quota.queues, "guard": guard}).available(name, KEY)
