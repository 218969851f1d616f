"""Which Jobs are the surplus of another job."""

from dataclasses import replace

from cede.api.surplus import Base
from scheduler.snapshot.surpluses import Surplus, read_surpluses
from tests.builders.kueue_objects import job

OTHER = job()
BASE_JOB = replace(OTHER, metadata=replace(OTHER.metadata, uid="child"))


def test_a_surplus_knows_whether_the_job_of_its_base_exists() -> None:
    surplus = job(annotations={"cede.dev/surplus-of": "js/gpt-node-0/child/2"})
    base = Base("js", "gpt-node-0", "child", 2)
    assert read_surpluses([surplus, BASE_JOB]) == (Surplus("job-uid", base, has_base=True),)
    assert read_surpluses([surplus]) == (Surplus("job-uid", base, has_base=False),)


def test_others_are_none() -> None:
    assert read_surpluses([OTHER, job(annotations={"cede.dev/surplus-of": "?"})]) == ()
