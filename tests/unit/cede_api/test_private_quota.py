"""A queue's quota for a moment, and the way back."""

import pytest

from cede.api import names, private_quota
from cede.api.kueue import FlavorQuotas, ResourceGroup, ResourceQuota
from cede.api.private_quota import Original, PrivateQuota

GPU = "nvidia.com/gpu"
KEY = ("a100", GPU)
WRITTEN = (
    ResourceGroup(
        (GPU, "cpu"),
        (FlavorQuotas("a100", (ResourceQuota(GPU, "4", "2"), ResourceQuota("cpu", "8"))),),
    ),
)
NOTE = PrivateQuota("c-1", (Original("a100", GPU, "4"),))


def test_the_way_back_is_in_the_note() -> None:
    before = private_quota.as_json(WRITTEN)
    changed = private_quota.changed_groups(before, {KEY: ("12", "0")})
    gpu, cpu = changed[0]["flavors"][0]["resources"]
    assert gpu == {
        "name": GPU,
        "nominalQuota": "12",
        "borrowingLimit": "2",
        "lendingLimit": "0",
    }
    assert cpu == {"name": "cpu", "nominalQuota": "8"}
    note = private_quota.parse(NOTE.text())
    assert note == NOTE
    assert note.restored(changed) == before


def test_a_raw_queue_shows_its_quota_before_the_change() -> None:
    before = private_quota.as_json(WRITTEN)
    changed = private_quota.changed_groups(before, {KEY: ("12", "0")})
    noted = {names.PRIVATE_QUOTA: NOTE.text()}
    queue = {"metadata": {"annotations": noted}, "spec": {"resourceGroups": changed}}
    assert private_quota.groups_before(queue) == before
    assert private_quota.groups_before(queue | {"metadata": {}}) == changed


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"cession": "c"}', '{"originals": [1]}'])
def test_another_text_is_no_note(text: str) -> None:
    assert private_quota.parse(text) is None


def test_the_note_of_a_raw_queue() -> None:
    queue = {"metadata": {"annotations": {names.PRIVATE_QUOTA: NOTE.text()}}}
    assert private_quota.read(queue) == NOTE
    assert private_quota.originals_of(queue) == NOTE.originals
    assert private_quota.originals_of({"metadata": {}}) == ()
