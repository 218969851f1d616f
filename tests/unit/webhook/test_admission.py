"""The scheduler's user is the one that it is deployed as."""

import yaml

from tests.paths import TREE
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.team import Team


def test_the_scheduler_runs_as_the_user_whose_resizes_are_accepted() -> None:
    manifest = (TREE / "deploy/base/scheduler/deployment.yaml").read_text()
    deployments = [item for item in yaml.safe_load_all(manifest) if item["kind"] == "Deployment"]
    accounts = {item["spec"]["template"]["spec"]["serviceAccountName"] for item in deployments}
    assert {f"system:serviceaccount:cede-system:{name}" for name in accounts} == {SCHEDULER_USER}


def test_a_request_without_a_known_team_has_no_limits() -> None:
    assert AdmissionRequest({}).team == Team()
    assert AdmissionRequest({}).old is None
