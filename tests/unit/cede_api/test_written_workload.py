"""Who last wrote whether a Workload is active."""

import msgspec

from cede.api.kueue import Workload
from cede.api.objects import Json
from cede.api.written_workload import WrittenWorkload, active_writer

ACTIVE: Json = {"f:spec": {".": {}, "f:active": {}, "f:priority": {}}}
PRIORITY: Json = {"f:spec": {"f:priority": {}}}
STATUS: Json = {"f:status": {"f:conditions": {}}}


def read(*entries: tuple[str, str, Json]) -> WrittenWorkload:
    writers = [
        {"manager": manager, "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}
        for manager, time, fields in entries
    ]
    return msgspec.convert({"metadata": {"managedFields": writers}}, WrittenWorkload)


def test_the_last_writer_is_found() -> None:
    writer = active_writer(
        read(
            ("kueue", "2026-01-01T00:00:00Z", ACTIVE),
            ("kubectl-edit", "2026-01-02T00:00:00Z", ACTIVE),
            ("other", "2026-01-03T00:00:00Z", PRIORITY),
            ("kueue", "2026-01-04T00:00:00Z", STATUS),
        )
    )
    assert writer is not None
    assert writer.manager == "kubectl-edit"


def test_nobody_wrote_it_if_nothing_is_recorded_or_read() -> None:
    assert active_writer(read(("kueue", "2026-01-04T00:00:00Z", STATUS))) is None
    assert active_writer(Workload()) is None


def test_the_fields_that_nobody_asks_for_are_not_kept() -> None:
    (entry,) = read(("kueue", "2026-01-04T00:00:00Z", ACTIVE | STATUS)).metadata.managedFields
    assert entry.fieldsV1 == {"f:spec": {"f:active": {}}}
