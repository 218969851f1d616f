"""What a person may see of a view, and how the cluster is asked about them."""

from dataclasses import replace

from cede.api.job_progress import JobProgress, Progress
from cede.api.objects import CESSIONS, LEASES
from cede.dashboard.people.person import (
    SHARED,
    Person,
    Rights,
    may_list,
    person_of,
    place_of,
    visible,
)
from cede.dashboard.view import UnreadObject, View

KINDS = frozenset(kind.plural for kind in SHARED)
VIEW = View(
    team_namespaces=frozenset({"a", "b"}),
    unreadable=[
        UnreadObject("jobs", "a", "job of a"),
        UnreadObject("jobs", "b", "job of b"),
        UnreadObject("cessions", "", "a cession"),
    ],
)


def test_a_token_that_is_not_authenticated_is_nobodys() -> None:
    assert person_of({"status": {"error": "expired"}}) is None
    assert person_of({"status": {"user": {"username": "ada"}}}) is None
    assert person_of({}) is None


def test_all_that_the_authenticator_says_goes_into_the_question() -> None:
    user = {"username": "ada", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}}
    person = person_of({"status": {"authenticated": True, "user": user}})
    assert person == Person("ada", "1", ("g",), (("k", ("v",)),))
    spec = may_list(person, LEASES, place_of(LEASES))["spec"]
    assert spec == {
        "user": "ada",
        "uid": "1",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "verb": "list",
            "group": "coordination.k8s.io",
            "resource": "leases",
            "namespace": "cede-system",
        },
    }
    assert place_of(CESSIONS) == ""


def test_names_of_teams_are_told_to_those_who_may_list_them() -> None:
    named = visible(VIEW, Rights(KINDS, frozenset({"a"})))
    assert named.rights == "Not shown, because you may not read it: the jobs in b."
    untold = visible(VIEW, Rights(KINDS - {"computeallocations"}, frozenset({"a"})))
    assert untold.rights == "Not shown, because you may not read it: computeallocations."


def test_objects_that_cannot_be_read_are_named_to_those_who_may_list_them() -> None:
    shown = visible(VIEW, Rights(KINDS - {"cessions"}, frozenset({"a"})))
    assert [unread.sentence for unread in shown.unreadable] == ["job of a"]


def test_how_far_jobs_are_is_shown_where_they_may_list_it() -> None:
    noted = {name: Progress({"uid": JobProgress(answered=1)}) for name in ("a", "b")}
    unread = [UnreadObject("configmaps", name, f"note of {name}") for name in ("a", "b")]
    view = replace(VIEW, progress=noted, unreadable=unread)
    own = visible(view, Rights(KINDS, frozenset({"a", "b"}), frozenset({"a"})))
    assert own.progress.keys() == {"a"}
    assert [entry.sentence for entry in own.unreadable] == ["note of a"]
    assert visible(view, Rights(KINDS, frozenset({""}), frozenset({""}))).progress == noted
    assert visible(view, Rights(KINDS, frozenset({""}))).progress == {}


def test_what_is_hidden_counts_as_not_read() -> None:
    hidden = visible(VIEW, Rights(frozenset(), frozenset()))
    assert hidden.incomplete == KINDS
    assert (hidden.sees_policy, hidden.priority_classes) == (False, None)
