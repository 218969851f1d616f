"""What pods, events and the writers of fields tell."""

import msgspec

from cede.api.objects import Json
from cede.api.pod_state import Event, WrittenFields


def test_an_event_of_a_series_has_the_time_of_the_last_one() -> None:
    body = {"eventTime": "a", "deprecatedLastTimestamp": None}
    assert msgspec.convert(body, Event).last_time == "a"
    series = {"lastObservedTime": "c", "count": 2}
    assert msgspec.convert(body | {"series": series}, Event).last_time == "c"
    assert msgspec.convert({"eventTime": None}, Event).last_time == ""


def test_the_last_writer_of_a_field_is_found() -> None:
    fields: Json = {"f:spec": {"f:active": {}}}
    writers = [
        {"manager": "kueue", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields},
        {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": fields},
        {"manager": "other", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:spec": {}}},
    ]
    written = msgspec.convert({"metadata": {"managedFields": writers}}, WrittenFields)
    writer = written.writer("spec", "active")
    assert writer is not None
    assert writer.manager == "kubectl-edit"
    assert written.writer("spec", "priority") is None
    assert WrittenFields().writer("spec", "active") is None
