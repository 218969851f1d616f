"""Another configuration of Kueue for the time of a test."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import yaml

from cede.api.objects import Json
from tests.harness.local_cluster import Cluster

CONFIG_MAP = ("configmap", "kueue-manager-config", "-n", "kueue-system")
CONFIG_KEY = "controller_manager_config.yaml"
DEPLOYMENT = ("-n", "kueue-system", "deployment/kueue-controller-manager")


@contextmanager
def kueue_configured_by(cluster: Cluster, change: Callable[[Json], None]) -> Iterator[None]:
    """Inside, Kueue runs with its configuration as `change` leaves it."""
    original: str = cluster.kubectl_json("get", *CONFIG_MAP)["data"][CONFIG_KEY]
    configuration = yaml.safe_load(original)
    change(configuration)
    _restart(cluster, yaml.safe_dump(configuration))
    try:
        yield
    finally:
        _restart(cluster, original)


def _restart(cluster: Cluster, configuration: str) -> None:
    patch = json.dumps({"data": {CONFIG_KEY: configuration}})
    cluster.kubectl("patch", *CONFIG_MAP, "--type=merge", "-p", patch)
    cluster.kubectl("rollout", "restart", *DEPLOYMENT)
    cluster.kubectl("rollout", "status", *DEPLOYMENT, "--timeout=120s")
