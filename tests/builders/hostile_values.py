"""Hypothesis strategies for values that a hostile user may send in any place of an object."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from cede.api.objects import Json
from tests.builders.jobs import PRIORITY, QUEUE

Path = tuple[str | int, ...]


def nest(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"spec": {"template": [value]}}
    return value


TEXTS = st.sampled_from(
    [
        "",
        " ",
        "0",
        "-1",
        "1e999",
        "9" * 400,
        "9" * 5000,
        "9" * 400 + "s",
        "1-2000000000",
        "٣",
        "é",
        "\u202e",
        "\x00",
        "\ud800",
        "💥" * 50,
        "a/b~1",
        "__proto__",
        "kueue.x-k8s.io/x",
        "2-8",
        "0-0",
        "1" + " " * 5000 + "2",
        "cede-control",
        "CEDE_SIZES",
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "Indexed",
        "Never",
    ]
) | st.text(max_size=5)
NUMBERS = st.sampled_from(
    [0, -1, 1, 8, True, False, 2**31, 2**63, -(2**63), 10**300, 0.5, 1e308, -0.0]
)
SHALLOW_VALUES = st.recursive(
    st.none() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
HOSTILE_VALUES = SHALLOW_VALUES | st.builds(nest, SHALLOW_VALUES, st.integers(1, 60))
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(
            st.sampled_from([QUEUE, PRIORITY, "cede.dev/elastic"]), TEXTS, max_size=3
        ),
        "annotations": st.dictionaries(
            st.sampled_from(["cede.dev/sizes", "cede.dev/grace", "cede.dev/desired-size"]),
            TEXTS,
            max_size=3,
        ),
        "ownerReferences": SHALLOW_VALUES,
        "deletionTimestamp": SHALLOW_VALUES,
    },
)


def all_paths(value: Any, prefix: Path = ()) -> Iterator[Path]:
    """The path of every part of the value, and of the value itself."""
    yield prefix
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield from all_paths(inner, (*prefix, key))


def edit(value: Any, path: Path, new: Any, how: str) -> Any:
    """A copy of the value in which the part at `path` is replaced, removed or duplicated."""
    value = json.loads(json.dumps(value))
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    if how == "duplicate" and isinstance(parent, list):
        parent.append(parent[int(path[-1])])
    elif how == "remove":
        del parent[path[-1]]
    else:
        parent[path[-1]] = new
    return value


@st.composite
def hostile_objects(draw: st.DrawFn, originals: list[Json]) -> Json:
    """One of the objects, of which any part of the spec and the metadata may be anything."""
    job: Json = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(0, 4))):
        places = [path for path in all_paths(job) if len(path) > 1 and path[0] == "spec"]
        if places:
            place = draw(st.sampled_from(places))
            value = draw(HOSTILE_VALUES)
            how = draw(st.sampled_from(["replace", "remove", "duplicate"]))
            job = edit(job, place, value, how)
    if draw(st.booleans()):
        job = job | {"metadata": job["metadata"] | draw(METADATA)}
    if draw(st.integers(0, 9)) == 0:
        fields = st.sampled_from(["apiVersion", "kind", "spec"])
        job = job | draw(st.dictionaries(fields, HOSTILE_VALUES, max_size=2))
    return job
