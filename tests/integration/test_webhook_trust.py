"""What somebody does to the certificates by hand, on the real cluster, while users go on creating
jobs."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.user import file_of
from webhook.certificates.issue import issue_ca

pytestmark = pytest.mark.cluster
KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
SECRET = ("secret", "cede-webhook-cert", "-n", names.SYSTEM_NAMESPACE)
MENDED_S = 20.0


class Users:
    """Two of them create jobs all the time, as a dry run: one elastic, one plain."""

    def __init__(self, cluster: Any, team: str) -> None:
        plain = file_of(team)
        del plain["metadata"]["annotations"]
        self.cluster, self.files = cluster, {"elastic": file_of(team), "plain": plain}
        self.done: dict[str, int] = dict.fromkeys(self.files, 0)
        self.refused: dict[str, list[tuple[float, str]]] = {name: [] for name in self.files}
        self.stop = threading.Event()

    def create(self, name: str) -> None:
        while not self.stop.is_set():
            try:
                self.cluster.kubectl(
                    "create", "--dry-run=server", "-f", "-", stdin=json.dumps(self.files[name])
                )
            except AssertionError as error:
                self.refused[name].append((time.monotonic(), str(error)))
            self.done[name] += 1

    def created_again(self) -> None:
        """Each has created some more since."""
        before = dict(self.done)
        self.cluster.until(
            lambda: all(self.done[name] >= before[name] + 3 for name in before),
            "users to go on",
            30,
        )


@contextmanager
def users(cluster: Any, team: str) -> Iterator[Users]:
    found = Users(cluster, team)
    threads = [threading.Thread(target=found.create, args=(name,)) for name in found.files]
    for thread in threads:
        thread.start()
    try:
        found.created_again()
        yield found
        found.created_again()
    finally:
        found.stop.set()
        for thread in threads:
            thread.join()


def bundles(cluster: Any) -> list[str]:
    found: list[Json] = [cluster.kubectl_json("get", kind, names.WEBHOOK) for kind in KINDS]
    return [hook["clientConfig"].get("caBundle", "") for each in found for hook in each["webhooks"]]


def test_a_deleted_secret_comes_back_and_no_job_is_refused(cluster: Any, team: str) -> None:
    before = cluster.kubectl_json("get", *SECRET)
    with users(cluster, team) as asking:
        cluster.kubectl("delete", *SECRET)
        after = cluster.until(
            lambda: cluster.kubectl_json("get", *SECRET), "the Secret to be back", MENDED_S
        )
        asking.created_again()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["data"] == before["data"]
    assert asking.refused == {"elastic": [], "plain": []}


def test_a_bundle_reset_by_hand_is_put_back_and_what_it_refuses_meanwhile_is_said_plainly(
    cluster: Any, team: str
) -> None:
    """API servers trust nobody until it is put back: plain jobs go on all the same, elastic ones
    for a moment do not."""
    before = bundles(cluster)
    wrong = base64.b64encode(issue_ca(time.time()).certificate.encode()).decode()
    with users(cluster, team) as asking:
        reset = time.monotonic()
        for kind in KINDS:
            hooks = cluster.kubectl_json("get", kind, names.WEBHOOK)["webhooks"]
            patch = [
                {"op": "replace", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": wrong}
                for i in range(len(hooks))
            ]
            cluster.kubectl("patch", kind, names.WEBHOOK, "--type=json", "-p", json.dumps(patch))
        cluster.until(lambda: bundles(cluster) == before, "the bundles to be put back", MENDED_S)
        asking.created_again()
    assert asking.refused["plain"] == []
    late = [said for when, said in asking.refused["elastic"] if when > reset + MENDED_S]
    assert late == []
    assert all("Cede's webhook did not answer" in said for _, said in asking.refused["elastic"])
