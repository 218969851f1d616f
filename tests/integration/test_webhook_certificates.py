"""Certificates damaged by hand on the real cluster, while users create jobs all the time."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cede.api import names
from quota_controller.certificates.issue import issue_ca
from tests.integration.user import job_file
from tests.marks import LONG

pytestmark = pytest.mark.cluster
CONFIGURATION_KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
SECRET = ("secret", "cede-webhook-cert", "-n", names.SYSTEM_NAMESPACE)
REPAIR_TIMEOUT_S = 20.0


class Users:
    """Two users who create jobs all the time, as a dry run: one elastic jobs, one plain jobs."""

    def __init__(self, cluster: Any, team: str) -> None:
        plain = job_file(team)
        del plain["metadata"]["annotations"]
        self.cluster = cluster
        self.files = {"elastic": job_file(team), "plain": plain}
        self.attempts = dict.fromkeys(self.files, 0)
        # (monotonic time, message)
        self.refusals: dict[str, list[tuple[float, str]]] = {name: [] for name in self.files}
        self.stop = threading.Event()

    def create_jobs(self, name: str) -> None:
        file = json.dumps(self.files[name])
        while not self.stop.is_set():
            try:
                self.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=file)
            except AssertionError as error:
                self.refusals[name].append((time.monotonic(), str(error)))
            self.attempts[name] += 1

    def wait_for_attempts(self) -> None:
        """Returns when each user has created three more jobs."""
        before = dict(self.attempts)
        self.cluster.until(
            lambda: all(self.attempts[name] >= before[name] + 3 for name in before),
            "users to create more jobs",
            30,
        )


@contextmanager
def run_users(cluster: Any, team: str) -> Iterator[Users]:
    users = Users(cluster, team)
    threads = [threading.Thread(target=users.create_jobs, args=(name,)) for name in users.files]
    for thread in threads:
        thread.start()
    try:
        users.wait_for_attempts()
        yield users
        users.wait_for_attempts()
    finally:
        users.stop.set()
        for thread in threads:
            thread.join()


def get_bundles(cluster: Any) -> list[str]:
    """The CA bundle of every webhook in both configurations."""
    bundles = list[str]()
    for kind in CONFIGURATION_KINDS:
        configuration = cluster.kubectl_json("get", kind, names.WEBHOOK)
        for webhook in configuration["webhooks"]:
            bundles.append(webhook["clientConfig"].get("caBundle", ""))
    return bundles


def set_bundles(cluster: Any, bundle: str) -> None:
    for kind in CONFIGURATION_KINDS:
        webhooks = cluster.kubectl_json("get", kind, names.WEBHOOK)["webhooks"]
        patch = [
            {"op": "replace", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": bundle}
            for i in range(len(webhooks))
        ]
        cluster.kubectl("patch", kind, names.WEBHOOK, "--type=json", "-p", json.dumps(patch))


def test_a_deleted_secret_is_restored_and_no_job_is_refused(cluster: Any, team: str) -> None:
    before = cluster.kubectl_json("get", *SECRET)
    with run_users(cluster, team) as users:
        cluster.kubectl("delete", *SECRET)
        after = cluster.until(
            lambda: cluster.kubectl_json("get", *SECRET), "the Secret", REPAIR_TIMEOUT_S
        )
        users.wait_for_attempts()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["data"] == before["data"]
    assert users.refusals == {"elastic": [], "plain": []}


def test_a_wrong_bundle_is_repaired_and_only_elastic_jobs_are_refused(
    cluster: Any, team: str
) -> None:
    """API servers cannot call the webhook until the bundle is repaired. Plain jobs are created
    without it; elastic jobs are refused with the reason."""
    before = get_bundles(cluster)
    wrong = base64.b64encode(issue_ca(time.time()).certificate.encode()).decode()
    with run_users(cluster, team) as users:
        damaged = time.monotonic()
        set_bundles(cluster, wrong)
        cluster.until(lambda: get_bundles(cluster) == before, "the bundles", REPAIR_TIMEOUT_S)
        users.wait_for_attempts()
    assert users.refusals["plain"] == []
    elastic = users.refusals["elastic"]
    late = [text for refused, text in elastic if refused > damaged + REPAIR_TIMEOUT_S]
    assert late == []
    assert all("Cede's webhook did not answer" in text for _, text in elastic)


@LONG
def test_a_secret_deleted_while_nobody_keeps_it_is_made_again_and_no_plain_job_is_refused(
    cluster: Any, team: str
) -> None:
    """The webhook serves what it has until there is a certificate by a CA that is trusted too."""
    before = get_bundles(cluster)
    with run_users(cluster, team) as users:
        with cluster.switched_off(names.QUOTA_CONTROLLER):
            cluster.kubectl("delete", *SECRET)
            users.wait_for_attempts()
            assert users.refusals == {"elastic": [], "plain": []}
        cluster.until(
            lambda: cluster.kubectl_json("get", *SECRET)["data"]["tls.crt"], "a certificate", 60
        )
        replaced = time.monotonic()
        users.wait_for_attempts()
    assert set(get_bundles(cluster)).isdisjoint(before)
    assert users.refusals["plain"] == []
    late = [text for refused, text in users.refusals["elastic"] if refused > replaced + 5]
    assert late == []
    assert all("Cede's webhook did not answer" in text for _, text in users.refusals["elastic"])
