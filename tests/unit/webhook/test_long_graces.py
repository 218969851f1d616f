"""No pod of a team takes longer to end than the policy allows: its quota is free meanwhile."""

from copy import deepcopy
from dataclasses import replace

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, kinds_with_templates, pod_spec
from tests.builders.jobs import TEAM
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints
from webhook.team import Team

FIELD = "terminationGracePeriodSeconds"
GRACE = "cede.dev/grace"
WITH_TEMPLATES = kinds_with_templates()
COMPLAINT = (
    "{path}.terminationGracePeriodSeconds is {own_s}, but the policy allows {allowed_s} s at most: "
    "lower it, or ask an admin to raise spec.preemption.maxGraceSeconds of the ClusterPolicy"
)
TEN_YEARS_S = 315_360_000


def job(kind: str = "Job", own_s: int | None = None, grace: str | None = None) -> Json:
    own: Json = {} if own_s is None else {FIELD: own_s}
    made = job_of_kind(kind, pod_spec(**own))
    if grace:
        made["metadata"]["annotations"] = {GRACE: grace}
    return made


def refusal(made: Json, team: Team = TEAM) -> list[str]:
    return complaints(AdmissionRequest(made, team=team))


def long_grace(path: str, own_s: int = TEN_YEARS_S, allowed_s: int = 600) -> str:
    return COMPLAINT.format(path=path, own_s=own_s, allowed_s=allowed_s)


def change(old: Json, new: Json, team: Team = TEAM) -> list[str]:
    return complaints(AdmissionRequest(new, old, "ada", team))


@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_no_pod_takes_longer_to_end_than_the_policy_allows(kind: str) -> None:
    """It held its accelerators for as long, while Kueue had freed their quota."""
    made = job(kind, own_s=TEN_YEARS_S)
    _, paths = jobs_of_every_kind(pod_spec())[kind]
    assert refusal(made) == [long_grace(path) for path in paths]
    assert refusal(job(kind, own_s=600)) == []


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_nor_one_of_spark_which_has_no_whole_templates(role: str) -> None:
    for path, fields in (
        (f"spec.{role}", {FIELD: TEN_YEARS_S}),
        (f"spec.{role}.template.spec", {"template": {"spec": {FIELD: TEN_YEARS_S}}}),
    ):
        made = job("SparkApplication")
        made["spec"][role] = made["spec"].get(role, {}) | fields
        assert refusal(made) == [long_grace(path)]
        wrapped = job("AppWrapper")
        wrapped["spec"]["components"][0]["template"] = made
        assert refusal(wrapped) == [long_grace(f"spec.components[0].template.{path}")]


@pytest.mark.parametrize(
    ("old_s", "new_s", "is_refused"),
    [
        pytest.param(700, 700, False, id="as before"),
        pytest.param(800, 700, False, id="lowered"),
        pytest.param(700, 701, True, id="raised"),
        pytest.param(None, 700, True, id="new"),
        pytest.param(30, 600, False, id="raised to what is allowed"),
    ],
)
@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_an_update_is_refused_only_for_a_grace_that_it_raises(
    kind: str, old_s: int | None, new_s: int, is_refused: bool
) -> None:
    """The policy may have allowed more when the job was made."""
    assert bool(change(job(kind, own_s=old_s), job(kind, own_s=new_s))) is is_refused


@pytest.mark.parametrize("kind", WITH_TEMPLATES)
@pytest.mark.parametrize("grace", [None, "10m", "1h"])
def test_what_the_webhook_sets_is_never_too_long(kind: str, grace: str | None) -> None:
    """Nor is what it gives back, when the policy allows less than at the creation."""
    made = job(kind, grace=grace)
    live = apply_defaults(AdmissionRequest(made, team=TEAM))
    assert refusal(live) == []
    strict = replace(TEAM, grace_s=10, max_grace_s=10)
    assert change(live, live, strict) == []
    sent = deepcopy(made)
    again = apply_defaults(AdmissionRequest(sent, live, "ada", strict))
    assert change(live, again, strict) == []
    fresh = apply_defaults(AdmissionRequest(sent, team=strict))
    assert refusal(sent, strict) == refusal(fresh, strict) == []


def test_the_default_of_kubernetes_is_always_allowed() -> None:
    strict = replace(TEAM, grace_s=5, max_grace_s=5)
    assert refusal(job(own_s=30), strict) == []
    assert refusal(job(own_s=31), strict) == [long_grace("spec.template.spec", 31, 30)]
