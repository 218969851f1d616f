"""The page as rows, and what differs between two of them."""

from dataclasses import replace

from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.policy import ClusterPolicy
from cede.dashboard.job_rows import groups
from cede.dashboard.page import THE_CLUSTER, Cluster, Page, changes, page, with_trouble
from cede.dashboard.view import View
from tests.builders.reports import LEASES
from tests.builders.reports import NOW as LEASE_TIME
from tests.builders.shared_cluster import allocation, policy, quota
from tests.builders.take_backs import cession
from tests.unit.cede_cli.dashboard.test_job_rows import BOTH

POLICY = ClusterPolicy.model_validate(policy(a100=8))
ALLOCATION = ComputeAllocation.model_validate(allocation("vision", quota("a100", 8, 4)))
CESSION = Cession.model_validate(cession("c", "vision/detector", ("research/gpt", 8, 4)))
VIEW = replace(BOTH, policy=POLICY, allocations=[ALLOCATION], cessions=[CESSION], leases=LEASES)


def made(view: View) -> Page:
    return page(view, groups(view, {}, LEASE_TIME), "here", LEASE_TIME)


def cluster(view: View) -> Cluster:
    return made(view).cluster[THE_CLUSTER]


def test_a_page_has_each_team_job_and_take_back_by_its_key() -> None:
    result = made(VIEW)
    assert list(result.teams) == ["vision"]
    assert list(result.jobs) == ["research/gpt/Job", "vision/detector/Job"]
    assert list(result.takes) == ["c"]


def test_the_cluster_says_who_preempts_and_what_its_types_hold() -> None:
    result = cluster(VIEW)
    assert (result.context, result.mode, result.preemption, result.leader) == (
        "here",
        "Enforce",
        "Cede",
        "s-1",
    )
    assert [(type_.type, type_.healthy, type_.uses) for type_ in result.types] == [("a100", 8, 4)]
    assert result.attention == ()


def test_problems_are_those_of_cede_status() -> None:
    assert cluster(replace(VIEW, leases={"cede-scheduler": None})).attention == (
        "cede-scheduler has had no leader: check Deployment cede-scheduler in namespace "
        "cede-system",
    )


def test_a_policy_that_may_not_be_read_is_no_missing_policy() -> None:
    missing = cluster(replace(VIEW, policy=None)).attention
    assert missing[0].startswith("there is no ClusterPolicy")
    kinds = frozenset({"clusterpolicies"})
    hidden = cluster(replace(VIEW, policy=None, sees_policy=False, hidden_kinds=kinds))
    assert hidden.attention == ()
    assert hidden.rights == "Not shown, because you may not read it: clusterpolicies."


def test_nothing_is_a_problem_before_all_was_read() -> None:
    assert cluster(View(reading=True)).attention == ()


def test_equal_pages_do_not_differ() -> None:
    assert changes(made(VIEW), made(VIEW)) == {}


def test_a_change_has_only_the_rows_that_differ() -> None:
    old, new = made(VIEW), made(replace(VIEW, jobs=VIEW.jobs[:1], workloads=VIEW.workloads[:1]))
    assert changes(old, new) == {"jobs": {"set": {}, "gone": ["vision/detector/Job"]}}
    assert changes(new, old)["jobs"] == {
        "set": {"vision/detector/Job": old.jobs["vision/detector/Job"]},
        "gone": [],
    }


def test_a_page_that_could_not_be_made_is_the_last_one_which_says_so() -> None:
    last = made(VIEW)
    shown = with_trouble(last, "why")
    assert shown.cluster[THE_CLUSTER].trouble == "why"
    assert changes(last, shown).keys() == {"cluster"}
