"""What differs between a live object and ours, who changed it, and how that is told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.objects import Json
from quota_controller.desired.drift import differences, edits, in_words, lowers, manager_of, says

US = "cede-quota-controller"


@pytest.mark.parametrize(
    ("live", "ours", "expected"),
    [
        pytest.param({"a": 1, "theirs": 2}, {"a": 1}, [], id="in a map others may add"),
        pytest.param({"a": 2}, {"a": 1}, ["a was 2, is 1 again"], id="a value"),
        pytest.param({}, {"a": "x"}, ["a was absent, is x again"], id="a field that is gone"),
        pytest.param(
            {"a": [1]},
            {"a": [1, 2]},
            ["a was [1], is [1, 2] again"],
            id="a list of another length is told whole",
        ),
        pytest.param(
            {"a": [{"b": 1, "c": 2}]},
            {"a": [{"b": 1}]},
            ["a[0].c was 2, is absent again"],
            id="a list is wholly ours",
        ),
        pytest.param(
            {"a": [{"nominalQuota": "4"}]},
            {"a": [{"nominalQuota": "4000m"}]},
            [],
            id="amounts as amounts",
        ),
        pytest.param(
            {"a": [{"nominalQuota": 8}]},
            {"a": [{"nominalQuota": "4"}]},
            ["a[0].nominalQuota was 8, is 4 again"],
            id="amounts",
        ),
        pytest.param({"weight": 50}, {"weight": "50"}, [], id="numbers too"),
        pytest.param(
            {"a": "x" * 80},
            {"a": "y"},
            [f"a was {'x' * 57}..., is y again"],
            id="long values are cut",
        ),
        pytest.param({"a": None}, {"a": {"b": 1}}, ['a was null, is {"b": 1} again'], id="null"),
    ],
)
def test_what_differs(live: Json, ours: Json, expected: list[str]) -> None:
    assert [one.in_words() for one in differences(live, ours)] == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(live=VALUES, ours=VALUES)
def test_it_says_it_when_nothing_differs_and_after_ours_is_written(live: Any, ours: Any) -> None:
    assert says(ours, ours)
    assert says(live, ours) == (not list(differences(live, ours)))
    for one in differences(live, ours):
        assert one.in_words()
        assert one.live != one.ours


def managed(manager: str, fields: Json, time: str = "2027-01-01T00:00:00Z") -> Json:
    return {"manager": manager, "fieldsV1": fields, "time": time}


@pytest.mark.parametrize(
    ("fields", "path", "holds"),
    [
        pytest.param(
            {"f:spec": {"f:stopPolicy": {}}}, ("spec", "stopPolicy"), True, id="the field"
        ),
        pytest.param(
            {"f:spec": {"f:resourceGroups": {}}},
            ("spec", "resourceGroups", 0, "flavors"),
            True,
            id="a whole above it",
        ),
        pytest.param(
            {"f:spec": {"f:other": {}}}, ("spec", "stopPolicy"), False, id="another field"
        ),
        pytest.param(
            {"f:items": {'k:{"name":"b"}': {"f:value": {}}}},
            ("items", 1, "value"),
            True,
            id="an entry by its key",
        ),
        pytest.param(
            {"f:items": {'k:{"name":"b"}': {"f:value": {}}}},
            ("items", 0, "value"),
            False,
            id="another entry",
        ),
        pytest.param(
            {"f:items": {'v:"b"': {}}},
            ("items", 0),
            False,
            id="an entry by its value is not known by place",
        ),
    ],
)
def test_who_holds_a_field(fields: Json, path: tuple[str | int, ...], *, holds: bool) -> None:
    live = {
        "metadata": {"managedFields": [managed("ann", fields)]},
        "items": [{"name": "a"}, {"name": "b"}],
        "spec": {},
    }
    assert manager_of(live, path) == ("ann" if holds else "")


def test_the_last_who_wrote_it_is_named() -> None:
    fields: Json = {"f:a": {}}
    live = {
        "metadata": {
            "managedFields": [
                managed("late", fields, "2027-01-02T00:00:00Z"),
                managed("early", fields),
            ]
        }
    }
    assert manager_of(live, ("a",)) == "late"


HELD: Json = {
    "metadata": {"managedFields": [managed("ann", {"f:b": {}}), managed(US, {"f:a": {}})]},
    "a": 1,
    "b": 1,
    "c": 1,
}


@pytest.mark.parametrize(
    ("ours", "said", "changed"),
    [
        pytest.param(
            {"a": 1, "b": 2}, {"a": 1, "b": 2}, ["b"], id="what we said last is said no more"
        ),
        pytest.param({"a": 3, "b": 1}, {"a": 1, "b": 1}, [], id="only the plan has changed"),
        pytest.param(
            {"a": 3, "b": 2, "c": 2}, None, ["b"], id="without memory: what another holds"
        ),
    ],
)
def test_an_edit_is_what_we_did_not_do(ours: Json, said: Json | None, changed: list[str]) -> None:
    assert [one.path[0] for one in edits(HELD, ours, said, manager=US)] == changed


def test_edits_in_words() -> None:
    ours: Json = dict.fromkeys("abc", 2)
    found = list(differences(HELD, ours))
    assert (
        in_words(HELD, found, manager=US)
        == "changed by ann: a was 1, is 2 again, b was 1, is 2 again, c was 1, is 2 again"
    )
    assert (
        in_words(HELD, found, manager=US, secret=True)
        == "changed by ann: a was changed, b was changed, c was changed"
    )
    many = list(differences({}, {f"f{i}": i for i in range(9)}))
    assert in_words({"metadata": {}}, many, manager=US).endswith(
        "f3 was absent, is 3 again, and 5 more"
    )


def queue(**amounts: int | str) -> Json:
    flavors = [
        {"name": name, "resources": [{"name": "gpu", "nominalQuota": value}]}
        for name, value in amounts.items()
    ]
    return {"spec": {"resourceGroups": [{"coveredResources": ["gpu"], "flavors": flavors}]}}


@pytest.mark.parametrize(
    ("live", "ours", "lower"),
    [
        pytest.param(queue(a=4), queue(a="2"), True, id="less"),
        pytest.param(queue(a=4), queue(a=4, b=2), False, id="more"),
        pytest.param(queue(a=4, b=1), queue(a=5), True, id="a type is gone"),
        pytest.param({"spec": {}}, queue(a=1), False, id="a queue without quota"),
        pytest.param(None, queue(a=1), False, id="nothing there"),
    ],
)
def test_what_gives_up_quota(live: Json | None, ours: Json, *, lower: bool) -> None:
    assert lowers(live, ours) is lower
