"""Only the rows of namespaces that changed are made again."""

from dataclasses import replace

import msgspec

from cede.api import names
from cede.api.cession import Cession
from cede.api.job_progress import JobProgress, Progress
from cede.api.kueue import Job, Workload
from cede.dashboard.job_rows import REFRESH_S, Group, groups
from cede.dashboard.view import View
from tests.builders.shared_cluster import job
from tests.builders.take_backs import cession

NOW = 1000.0


def view(*pairs: tuple[object, object], cessions: tuple[Cession, ...] = ()) -> View:
    return View(
        jobs=[msgspec.convert(body, Job) for body, _ in pairs],
        workloads=[msgspec.convert(item, Workload, strict=False) for _, item in pairs],
        cessions=cessions,
    )


BOTH = view(job("research", "gpt", 4), job("vision", "detector", 8))
TAKEN = Cession.model_validate(cession("c", "vision/detector", ("research/gpt", 8, 4)))


def made_again(old: View, new: View, later_s: float = 1.0) -> list[str]:
    """The namespaces whose rows were made again."""
    before = groups(old, {}, NOW)
    after = groups(new, before, NOW + later_s)
    return [name for name, group in after.items() if group is not before.get(name)]


def test_a_group_has_the_rows_of_its_namespace() -> None:
    result = groups(BOTH, {}, NOW)
    assert [row.name for row in result["research"].rows] == ["gpt"]
    assert [row.name for row in result["vision"].rows] == ["detector"]


def test_nothing_that_did_not_change_is_made_again() -> None:
    assert made_again(BOTH, BOTH) == []


def test_a_job_that_changed_is_made_again_with_its_namespace() -> None:
    gpt, detector = BOTH.jobs
    resized = replace(gpt, spec=replace(gpt.spec, parallelism=2))
    assert made_again(BOTH, replace(BOTH, jobs=[resized, detector])) == ["research"]


def test_a_step_of_a_job_concerns_its_namespace() -> None:
    def noted(step: int) -> View:
        progress = Progress({"uid": JobProgress(answered=1, step=step)})
        return replace(BOTH, progress={"research": progress})

    assert made_again(noted(3), noted(3)) == []
    assert made_again(noted(3), noted(4)) == ["research"]
    assert made_again(noted(3), BOTH) == ["research"]


def test_a_cession_concerns_who_takes_and_who_gives() -> None:
    third = view(*[job(name, "it", 1) for name in ("research", "vision", "speech")])
    assert made_again(third, replace(third, cessions=[TAKEN])) == ["research", "vision"]


def test_a_cession_also_concerns_a_job_elsewhere_that_was_set_aside_for_it() -> None:
    body, workload = job("speech", "it", 1)
    workload["metadata"]["labels"] = {names.STOPPED_FOR: "c"}
    aside = view((body, workload))
    assert made_again(aside, replace(aside, cessions=[TAKEN])) == ["speech"]


def test_rows_that_say_how_long_ago_are_made_again_after_a_minute() -> None:
    assert made_again(BOTH, BOTH, REFRESH_S) == ["research", "vision"]


def test_the_rows_of_a_namespace_without_jobs_are_gone() -> None:
    assert groups(View(), {"research": Group()}, NOW) == {}
