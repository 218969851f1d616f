"""What the containers of pods and the events of a Job tell."""

import msgspec
import pytest

from cede.api.pod_state import ContainerState, ContainerWaiting, Event, failure


def test_an_event_of_a_series_has_the_time_of_the_last_one() -> None:
    body = {"eventTime": "a", "deprecatedLastTimestamp": None}
    assert msgspec.convert(body, Event).last_time == "a"
    series = {"lastObservedTime": "c", "count": 2}
    assert msgspec.convert(body | {"series": series}, Event).last_time == "c"
    assert msgspec.convert({"eventTime": None}, Event).last_time == ""


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param([], "", id="no container yet"),
        pytest.param(["", "ContainerCreating", "PodInitializing"], "", id="they are starting"),
        pytest.param(["ImagePullBackOff"], "ImagePullBackOff", id="it waits to pull again"),
        pytest.param(["ErrImagePull"], "ImagePullBackOff", id="it pulls again: the same"),
        pytest.param(["", "CrashLoopBackOff"], "CrashLoopBackOff", id="the second one"),
        pytest.param(["InvalidImageName", "CrashLoopBackOff"], "InvalidImageName", id="the first"),
        pytest.param(["CreateContainerConfigError"], "CreateContainerConfigError", id="no Secret"),
    ],
)
def test_why_the_containers_of_a_pod_cannot_start(waiting: list[str], expected: str) -> None:
    states = [ContainerState(ContainerWaiting(reason) if reason else None) for reason in waiting]
    assert failure(states) == expected
