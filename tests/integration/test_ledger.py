"""The ledger beside a real API server and Kueue, with the rights that it is deployed with."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from cede.api import names
from tests.harness.local_cluster import Cluster
from tests.harness.local_job import free_port
from tests.integration.admin import TIMEOUT_S, Admin, governed
from tests.integration.books import CONFIRMED_WITHIN_S, TOLERANCE_S, Books
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.cluster
OWNER = "gov-lender"
BORROWER = "gov-user"
COMPONENT = TREE / "deploy/components/ledger"
ROUNDED_S = 3600 / 1e6
"""Statements are rounded to a millionth of an hour."""


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    """Each team owns eight accelerators."""
    with governed(cluster) as admin:
        admin.apply_team(OWNER, 8)
        admin.apply_team(BORROWER, 8)
        yield admin
        admin.delete_teams(OWNER, BORROWER)


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That of the ledger's service account. Afterwards its objects are deleted."""
    note = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.LEDGER, "namespace": names.SYSTEM_NAMESPACE},
    }
    file = ("-n", names.SYSTEM_NAMESPACE, "-f", str(COMPONENT / "rbac.yaml"))
    cluster.kubectl("apply", *file)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(note))
    account = ("token", names.LEDGER, "-n", names.SYSTEM_NAMESPACE, "--duration=2h")
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": cluster.kubectl("create", *account).strip()}
    path = tmp_path_factory.mktemp("ledger") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield str(path)
    cluster.kubectl("delete", *file)
    cluster.kubectl("delete", "configmap,lease", names.LEDGER, "-n", names.SYSTEM_NAMESPACE)


class Ledger(Books):
    """Its database, and the processes that use it."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        url = f"sqlite:///{folder}/ledger.db"
        self.command = [sys.executable, "-m", "ledger", "--database", url]
        self.command += ["--kubeconfig", kubeconfig]

    @contextmanager
    def running(self, *, ends_by: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        command = [*self.command, "--port", str(free_port())]
        process = subprocess.Popen(command, cwd=TREE)
        try:
            yield
            assert process.poll() is None, "the ledger has ended by itself"
        finally:
            process.send_signal(ends_by)
            process.wait()

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*self.command, *words], cwd=TREE, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@LONG
def test_a_job_has_the_seconds_that_it_had_quota(
    admin: Admin, kubeconfig: str, tmp_path: Path
) -> None:
    """Through a restart of the ledger, whose gap is not counted."""
    ledger = Ledger(tmp_path, kubeconfig)
    cluster = admin.cluster
    with ledger.running(ends_by=signal.SIGKILL):
        cluster.until(lambda: ledger.statement()["month"], "the books to begin", TIMEOUT_S)
        admin.submit(admin.job(BORROWER, "gpt", 12, pods=12))
        admin.wait_for_admission(BORROWER, "gpt")
        began = time.time()
        cluster.until(
            lambda: ledger.job_seconds("gpt", "used") > 12 * 10,
            "ten seconds of the job to be in the books",
            CONFIRMED_WITHIN_S,
        )
    with ledger.running():
        cluster.until(
            ledger.gap_s,
            "the restart to be in the books",
            CONFIRMED_WITHIN_S,
        )
        admin.delete_job(BORROWER, "gpt")
        ended = time.time()
        cluster.until(
            lambda: ledger.has(ended + 1),
            "the end of the job to be in the books",
            CONFIRMED_WITHIN_S,
        )
    used_s = ledger.job_seconds("gpt", "used")
    assert used_s / 12 == pytest.approx(ended - began - ledger.gap_s(), abs=TOLERANCE_S)
    assert ledger.job_seconds("gpt", "borrowed") == pytest.approx(used_s / 3, abs=ROUNDED_S)
    assert {row["difference"] for row in ledger.statement()["balance"]} == {"0.000000"}


def test_the_audit_has_a_change_of_quota_and_the_cluster_has_its_head(
    admin: Admin, kubeconfig: str, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path, kubeconfig)
    # the note of the books of another test
    key = (names.LEDGER, "-n", names.SYSTEM_NAMESPACE)
    admin.cluster.kubectl("annotate", "configmap", *key, f"{names.AUDIT_HEAD}-")

    def records() -> list[Any]:
        lines = ledger.run("audit").splitlines()
        return [record for record in map(json.loads, lines) if record["name"] == OWNER]

    with ledger.running():
        admin.cluster.until(records, "the allocation to be recorded", TIMEOUT_S)
        before = len(records())
        admin.apply_team(OWNER, 4)
        admin.cluster.until(lambda: len(records()) > before, "the change to be recorded", TIMEOUT_S)
        admin.apply_team(OWNER, 8)
        admin.cluster.until(
            lambda: ledger.run("verify").startswith("intact"), "the head to be noted", TIMEOUT_S
        )
    assert "checked against" in ledger.run("verify")
