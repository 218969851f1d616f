"""What the scheduler knows of the Cessions that it wrote."""

from typing import Any

import pytest

from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus, TargetStatus, UnsavedWork
from cede.api.objects import CESSIONS, Json
from scheduler.actions import OpenCession, UpdateCession
from scheduler.apply import Applier
from scheduler.snapshot.snapshot import RawObjects
from scheduler.written_cessions import RETRY_S, WrittenCessions
from tests.builders.scheduler import cession
from tests.fakes.api_server import ApiServer

UID = "job-uid-gpt"
NOW = 1_800_000_000.0


def asked(**target: Any) -> CessionStatus:
    return cession("Asked", targets=[TargetStatus(uid=UID, step=5, **target)]).status


def of_an_older_crd(status: CessionStatus) -> CessionStatus:
    """Without the fields that an API server drops which has the CRD of before."""
    targets = [
        target.model_copy(update={"completed": False, "withoutAccelerators": False})
        for target in status.targets
    ]
    return status.model_copy(update={"targets": targets, "shortTime": ""})


def test_every_status_is_written_while_the_server_keeps_all() -> None:
    written = WrittenCessions()
    status = asked(completed=True)
    assert written.compare(status, status, NOW) == []
    assert written.would_change(status, cession("Asked"), NOW)


def test_a_status_that_differs_by_what_the_server_drops_is_not_written_again() -> None:
    written = WrittenCessions()
    status = asked(completed=True).model_copy(update={"shortTime": "2026-01-01T00:00:00Z"})
    kept = of_an_older_crd(status)
    assert written.compare(status, kept, NOW) == ["shortTime", "targets.completed"]
    assert written.compare(status, kept, NOW) == [], "that is known"
    as_kept = cession("Asked").model_copy(update={"status": kept})
    assert not written.would_change(status, as_kept, NOW)
    later = status.model_copy(update={"shortTime": "2026-01-01T00:00:09Z"})
    assert not written.would_change(later, as_kept, NOW)
    assert written.would_change(
        asked(completed=True, askedTime="2026-01-01T00:00:00Z"), as_kept, NOW
    )
    assert written.would_change(status, None, NOW), "the plan was made on another Cession"


def test_what_a_new_crd_keeps_is_written_again() -> None:
    written = WrittenCessions()
    status = asked(completed=True, withoutAccelerators=True)
    kept = of_an_older_crd(status)
    written.compare(status, kept, NOW)
    assert written.compare(status, status, NOW) == []
    assert written.would_change(status, cession("Asked").model_copy(update={"status": kept}), NOW)


def test_what_is_dropped_inside_of_a_field_is_not_written_again() -> None:
    written = WrittenCessions()
    work = UnsavedWork(flavor="p5", resource="nvidia.com/gpu", seconds="1.5")
    status = asked(unsaved=[work])
    kept = asked(unsaved=[work.model_copy(update={"seconds": ""})])
    assert written.compare(status, kept, NOW) == ["targets.unsaved.seconds"]
    as_kept = cession("Asked").model_copy(update={"status": kept})
    assert not written.would_change(status, as_kept, NOW)
    other = asked(unsaved=[work.model_copy(update={"flavor": "g6"})])
    assert written.would_change(other, as_kept, NOW)


def test_of_what_is_dropped_the_outermost_field_is_named() -> None:
    status = asked(unsaved=[UnsavedWork(flavor="p5", resource="nvidia.com/gpu", seconds="1.5")])
    assert WrittenCessions().compare(status, asked(), NOW) == ["targets.unsaved"]


def test_what_is_dropped_is_sent_again_after_a_while() -> None:
    """The CRD may have been replaced meanwhile, and nothing else would show it."""
    written = WrittenCessions()
    status = asked(completed=True)
    kept = of_an_older_crd(status)
    as_kept = cession("Asked").model_copy(update={"status": kept})
    written.compare(status, kept, NOW)
    assert not written.would_change(status, as_kept, NOW + RETRY_S)
    later = NOW + RETRY_S + 1
    assert written.would_change(status, as_kept, later)
    assert written.compare(status, kept, later) == []
    assert not written.would_change(status, as_kept, later + RETRY_S)


@pytest.mark.parametrize("is_old", [True, False])
async def test_a_server_with_an_older_crd_gets_each_status_once(
    server: ApiServer,
    applier: Applier,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_old: bool,
) -> None:
    def prune(method: str, path: str, body: Json) -> None:
        for target in body.get("status", {}).get("targets", []):
            target.pop("completed", None)

    if is_old:
        monkeypatch.setattr(server, "admission_hook", prune)
    await applier.apply([OpenCession(cession())])
    update = UpdateCession("c-1", asked(completed=True))
    for _ in range(3):
        cached = [Cession.model_validate(body) for body in server.objects(CESSIONS)]
        planned_on = RawObjects(cessions=applier.latest(cached))
        if planned_on.cessions[0].status != update.status:
            await applier.apply([update], planned_on)
    assert [method for method, _ in server.writes()].count("PATCH") == 1
    warnings = [entry.message for entry in caplog.records if entry.levelname == "WARNING"]
    assert warnings == ["the CRD of Cessions is too old"] * is_old
