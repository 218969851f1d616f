"""What the events of a Job tell."""

import msgspec

from cede.api.pod_state import Event


def test_an_event_of_a_series_has_the_time_of_the_last_one() -> None:
    body = {"eventTime": "a", "deprecatedLastTimestamp": None}
    assert msgspec.convert(body, Event).last_time == "a"
    series = {"lastObservedTime": "c", "count": 2}
    assert msgspec.convert(body | {"series": series}, Event).last_time == "c"
    assert msgspec.convert({"eventTime": None}, Event).last_time == ""
