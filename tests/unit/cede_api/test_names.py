"""The names of Cede's labels, annotations and finalizers."""

import pytest

from cede.api import names
from cede.api.objects import ALLOCATIONS, CESSIONS, POLICIES, Kind


@pytest.mark.parametrize(
    "name",
    [
        names.TEAM,
        names.ALLOCATION,
        names.SIZES,
        names.GRACE,
        names.DESIRED_SIZE,
        names.ELASTIC_POD,
        names.SHRUNK_AT,
        names.ALLOCATION_FINALIZER,
    ],
)
def test_labels_and_annotations_are_in_our_group(name: str) -> None:
    group, _, suffix = name.partition("/")
    assert group == names.GROUP
    assert suffix


@pytest.mark.parametrize("kind", [POLICIES, ALLOCATIONS, CESSIONS])
def test_our_kinds_are_in_our_group(kind: Kind) -> None:
    assert (kind.group, kind.version) == (names.GROUP, names.VERSION)
