"""The objects of a guard, by their names."""

from cede.api import guards
from tests.paths import TREE


def test_the_queue_that_shows_a_guard_is_deleted_last() -> None:
    *others, (kind, key) = guards.objects("c-1")
    assert (kind.kind, key) == ("ClusterQueue", ("", guards.queue_name("c-1")))
    assert {kind.kind for kind, _ in others} == {"Job", "LocalQueue"}
    assert {key for _, key in others} == {("cede-guard", "c-1")}


def test_the_scheduler_may_create_the_queue() -> None:
    """A ValidatingAdmissionPolicy refuses it all other names."""
    rule = f"request.name.startsWith('{guards.queue_name('')}')"
    assert rule in (TREE / "deploy" / "guard" / "guard.yaml").read_text()
