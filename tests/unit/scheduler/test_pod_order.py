"""Which pod of a job is asked first."""

from functools import reduce

import pytest

from scheduler.pod_order import NO_TRIES, Tries, in_order, note

PODS = ("a", "b", "c")


def after(*tries: str) -> Tries:
    """Each is a pod, in capitals if it answered."""
    return reduce(
        lambda before, pod: note(before, pod.lower(), PODS, answered=pod.isupper()), tries, NO_TRIES
    )


@pytest.mark.parametrize(
    ("tries", "order"),
    [
        pytest.param(after(), "abc", id="as they are given"),
        pytest.param(after("a"), "bca", id="one that failed comes last"),
        pytest.param(after("a", "B"), "bca", id="one that answered comes first"),
        pytest.param(after("a", "B", "b", "C"), "cab", id="it fails later"),
        pytest.param(after("b", "a"), "cba", id="the one that failed first has its turn first"),
        pytest.param(after("a", "b", "a"), "cba", id="it failed again"),
        pytest.param(after("a", "A"), "abc", id="it is back"),
    ],
)
def test_pods_are_asked_in_this_order(tries: Tries, order: str) -> None:
    assert in_order(PODS, tries) == list(order)


def test_pods_that_are_gone_are_forgotten() -> None:
    tries = note(after("a", "b"), "c", ("c", "d"), answered=False)
    assert tries == Tries("", ("c",))
    assert in_order(("c", "d"), tries) == ["d", "c"]
