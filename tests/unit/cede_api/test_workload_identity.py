"""Two Workloads have one identity exactly if they are the same job at different times."""

import pytest

from cede.api.objects import Json
from cede.api.workload_identity import identity, owner
from tests.builders.kueue_objects import owners_of_kind, workload


def identity_of(name: str, owners: list[Json]) -> str:
    return identity(workload(name, 8, owners=owners))


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob", "RayJob", "Pod"])
def test_another_workload_of_the_same_controller_is_the_same_job(kind: str) -> None:
    owners = owners_of_kind(kind)
    assert identity_of("a", owners) == identity_of("b", owners) == f"uid-{kind}"


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "StatefulSet", "PodGroup"])
def test_the_groups_of_one_set_are_different_jobs(kind: str) -> None:
    owners = owners_of_kind(kind)
    assert identity_of("a", owners) == "uid-a"
    assert identity_of("b", owners) == "uid-b"


def test_a_group_keeps_its_identity_when_its_pods_are_replaced() -> None:
    owners = owners_of_kind("StatefulSet")
    assert identity_of("a", owners) == identity_of("a", owners[:2]) == "uid-a"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("JobSet", "it"), ("LeaderWorkerSet", "it"), ("Deployment", "it-0"), ("PodGroup", "")],
)
def test_a_job_has_the_name_that_its_user_gave_it(kind: str, name: str) -> None:
    named = owner(workload("a", 8, owners=owners_of_kind(kind)))
    assert (named.name if named else "") == name


def test_a_workload_that_nobody_owns_is_its_own_job() -> None:
    assert identity_of("a", []) == "uid-a"
    assert owner(workload("a", 8, owners=[])) is None
