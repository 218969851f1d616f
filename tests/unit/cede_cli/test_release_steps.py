"""Steps of `cede uninstall` that a cluster refuses one by one."""

from cede.api import names
from cede.api.objects import CONFIG_MAPS, DEPLOYMENTS
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run

SCHEDULER = (names.SYSTEM_NAMESPACE, names.SCHEDULER)


def put(server: ApiServer, namespace: str, name: str) -> None:
    server.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace}, "data": {}})


def config_maps(server: ApiServer) -> list[tuple[str, str]]:
    return [
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in server.objects(CONFIG_MAPS)
    ]


async def test_uninstall_deletes_the_notes_of_progress_once_no_scheduler_runs(
    server: ApiServer, cede: Run
) -> None:
    put(server, "vision", names.PROGRESS)
    put(server, "vision", "theirs")
    metadata = {"name": names.SCHEDULER, "namespace": names.SYSTEM_NAMESPACE}
    server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {}})
    _, text, _ = await cede("uninstall")
    assert config_maps(server) == [("vision", "theirs")]
    assert "ConfigMap vision/cede-progress: deleted" in text.splitlines()
    paths = [path for _, path in server.writes()]
    stop = paths.index(DEPLOYMENTS.path(SCHEDULER))
    assert stop < paths.index(CONFIG_MAPS.path(("vision", names.PROGRESS)))


async def test_a_step_that_is_refused_is_named_and_ends_no_other(
    server: ApiServer, cede: Run
) -> None:
    put(server, "research", names.PROGRESS)
    put(server, "vision", names.PROGRESS)
    path = CONFIG_MAPS.path(("research", names.PROGRESS))
    server.script("DELETE", path, refuses(403, "Forbidden"))
    code, _, errors = await cede("uninstall")
    assert code == 1
    assert "ConfigMap research/cede-progress: " in errors
    assert config_maps(server) == [("research", names.PROGRESS)]


async def test_who_may_not_list_the_notes_learns_what_was_done(
    server: ApiServer, cede: Run
) -> None:
    metadata = {"name": names.SCHEDULER, "namespace": names.SYSTEM_NAMESPACE}
    server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {}})
    server.script("GET", CONFIG_MAPS.path(), refuses(403, "Forbidden"))
    code, text, errors = await cede("uninstall")
    assert code == 1
    assert "Deployment cede-scheduler: scaled to 0" in text.splitlines()
    assert "ConfigMaps cede-progress: " in errors
