"""What quota a Workload has. Its size is tried with that of its job: test_read_workloads.py."""

from cede.api.workload_quota import assigned, has_quota, replaced_slice
from tests.builders.kueue_objects import workload
from tests.builders.scheduler import KEY


def test_a_slice_names_what_it_replaces() -> None:
    assert replaced_slice(workload("b", 8, replaces="a")) == ("research", "a")
    assert replaced_slice(workload("b", 8)) is None


def test_a_finished_workload_has_no_quota() -> None:
    assert has_quota(workload("a", 8, assigned=8))
    assert not has_quota(workload("a", 8, assigned=8, finished=True))


def test_a_workload_without_admission_uses_nothing() -> None:
    assert assigned(workload("a", 8)) == (0, {})
    assert assigned(workload("a", 8, assigned=8)) == (8, {KEY: 8})
