"""`cede dashboard` on a real API server: what an admin sees, and what a member sees."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cede.kube.connection import connect
from tests.harness.local_cluster import Cluster
from tests.harness.page_reader import Reader, page_for_everybody, page_of
from tests.integration.admin import Admin, governed

pytestmark = pytest.mark.cluster

MINE, OTHER = "gov-page", "gov-page-other"
ACCOUNT = "reader"


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster, nodes=1) as admin:
        admin.apply_team(MINE, 2, members=[{"kind": "ServiceAccount", "name": ACCOUNT}])
        admin.apply_team(OTHER, 2)
        cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", MINE)
        for team in (MINE, OTHER):
            admin.submit(admin.job(team, "job", 1))
            admin.wait_for_admission(team, "job")
        yield admin
        admin.delete_teams(MINE, OTHER)


def member_kubeconfig(cluster: Cluster, path: Path) -> str:
    """The kubeconfig of the member, with a token of its account."""
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = cluster.kubectl("create", "token", ACCOUNT, "-n", MINE).strip()
    config["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(config))
    return str(path)


async def has_team(reader: Reader, team: str) -> None:
    """The share of a team that runs one job of one accelerator on a queue of two."""
    row = await reader.until("teams", team, ready=True)
    (share,) = row["shares"]
    assert (share["owns"], share["quota"]) == (2, 2)


async def test_an_admin_sees_all_teams_and_jobs_as_they_change(admin: Admin) -> None:
    kubeconfig = str(admin.cluster.kubeconfig)
    async with connect(manager="test", kubeconfig=kubeconfig) as client, page_of(client) as reader:
        for team in (MINE, OTHER):
            await has_team(reader, team)
            await reader.until("jobs", f"{team}/job/Job", state="Running", size=1)
        assert (await reader.page())["cluster"]["cluster"]["rights"] == ""
        admin.submit(admin.job(MINE, "later", 1))
        await reader.until("jobs", f"{MINE}/later/Job", state="Running")
        admin.delete_job(MINE, "later")


async def test_a_member_sees_all_teams_and_the_jobs_of_their_own(
    admin: Admin, tmp_path: Path
) -> None:
    kubeconfig = member_kubeconfig(admin.cluster, tmp_path / "config")
    async with connect(manager="test", kubeconfig=kubeconfig) as client, page_of(client) as reader:
        for team in (MINE, OTHER):
            await has_team(reader, team)
        await reader.until("jobs", f"{MINE}/job/Job", state="Running", size=1)
        page = await reader.page()
    assert {row["namespace"] for row in page["jobs"].values()} == {MINE}
    rights = page["cluster"]["cluster"]["rights"]
    assert rights.startswith("Not shown, because you may not read it: leases; the jobs in ")
    assert OTHER in rights
    assert MINE not in rights.replace(OTHER, "")


async def test_the_page_for_everybody_shows_a_member_what_rbac_lets_them_list(
    admin: Admin,
) -> None:
    """The server has the certificate of an admin, which goes with no request of the member."""
    create = ("create", "token", ACCOUNT, "-n", MINE)
    token = admin.cluster.kubectl(*create).strip()
    other_audience = admin.cluster.kubectl(*create, "--audience", "vault").strip()
    async with (
        page_for_everybody("--kubeconfig", str(admin.cluster.kubeconfig)) as url,
        aiohttp.ClientSession() as session,
    ):
        for refused in ("nobody's", other_audience):
            async with session.get(f"{url}/api/page", headers=bearer(refused)) as response:
                assert response.status == 401
        async with session.get(f"{url}/api/page", headers=bearer(token)) as response:
            page = await response.json()
        async with session.get(f"{url}/api/explain/{OTHER}/job", headers=bearer(token)) as response:
            explanation = await response.json()
    assert {MINE, OTHER} <= set(page["teams"])
    assert {row["namespace"] for row in page["jobs"].values()} == {MINE}
    assert OTHER in page["cluster"]["cluster"]["rights"]
    assert explanation["sentences"][0].startswith("you are not allowed to do this: ")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
