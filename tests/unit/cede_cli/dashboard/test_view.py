"""What a reader may not read, in one sentence."""

import pytest

from cede.dashboard.view import rights_sentence


@pytest.mark.parametrize(
    ("kinds", "namespaces", "sentence"),
    [
        pytest.param([], [], "", id="all may be read"),
        pytest.param(
            ["leases", "clusterqueues"],
            [],
            "Not shown, because you may not read it: clusterqueues; leases.",
            id="kinds",
        ),
        pytest.param(
            [],
            ["b", "a"],
            "Not shown, because you may not read it: the jobs in a, b.",
            id="jobs of other teams",
        ),
        pytest.param(
            ["leases"],
            ["a", "b", "c", "d", "e"],
            "Not shown, because you may not read it: leases; the jobs in a, b, c and 2 more.",
            id="many teams are counted",
        ),
    ],
)
def test_what_is_hidden_is_one_sentence(
    kinds: list[str], namespaces: list[str], sentence: str
) -> None:
    assert rights_sentence(kinds, namespaces) == sentence


def test_what_is_too_much_is_another_sentence() -> None:
    assert rights_sentence((), (), ["z"]) == (
        "Not shown, because a page watches 21 namespaces one by one at most: the jobs in z."
    )
