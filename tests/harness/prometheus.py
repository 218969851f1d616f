"""A real Prometheus on this machine, which scrapes the local cluster as the monitors of
deploy/components/monitoring say."""

import json
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml

from cede.api.objects import Json
from deploy.local import binaries
from deploy.local.paths import TREE
from deploy.monitoring.generate import FOLDER
from tests.harness.local_cluster import Cluster
from tests.harness.local_job import free_port

MODULE = "prometheus"
"""The folder in deploy/local."""
PACKAGES = "github.com/prometheus/prometheus/cmd"
RULES_TEST = FOLDER / "rules_test.yaml"
INTERVAL = "1s"
KUEUE = "kueue-system"
READER = "prometheus"
"""A ServiceAccount that may read Kueue's metrics."""
SNAKE_CASE = {
    "sourceLabels": "source_labels",
    "targetLabel": "target_label",
    "regex": "regex",
    "action": "action",
    "replacement": "replacement",
}
"""As the Prometheus Operator spells it → as Prometheus does."""


@dataclass(frozen=True)
class Prometheus:
    port: int

    def query(self, expression: str) -> list[Any]:
        """The series at this moment. Raises AssertionError for an expression that fails."""
        answer = self.read(f"query?{urllib.parse.urlencode({'query': expression})}")
        return list(answer["result"])

    def read(self, path: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", f"/api/v1/{path}")
            answer = json.load(connection.getresponse())
        except (OSError, ValueError) as error:
            raise AssertionError(f"{path}: {error}") from None
        finally:
            connection.close()
        assert answer["status"] == "success", f"{path}: {answer.get('error')}"
        return answer["data"]


@contextmanager
def scraping(cluster: Cluster, folder: Path) -> Iterator[Prometheus]:
    """Prometheus runs, keeps its data in `folder`, and is ready."""
    program = compile_program("prometheus", cluster.binary.parent)
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration(cluster)))
    port = free_port()
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        prometheus = Prometheus(port)
        cluster.until(lambda: is_ready(process, prometheus, folder), "Prometheus to be ready", 60)
        yield prometheus
    finally:
        process.terminate()
        process.wait(30)


def is_ready(process: subprocess.Popen[bytes], prometheus: Prometheus, folder: Path) -> bool:
    assert process.poll() is None, (folder / "log").read_text()
    return bool(prometheus.query("vector(1)"))


def compile_program(name: str, folder: Path) -> Path:
    """`prometheus` or `promtool`, in this folder. Seven minutes for the first one, once."""
    program = folder / name
    record = program.with_suffix(".key")
    key = (TREE / "deploy" / "local" / MODULE / "go.mod").read_text()
    if not (program.exists() and record.exists() and record.read_text() == key):
        binaries.run_go(
            MODULE, "build", "-ldflags", "-s -w", "-o", str(program), f"{PACKAGES}/{name}"
        )
        record.write_text(key)
    return program


def rules_tested_by(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What promtool says of rules_test.yaml."""
    (folder / "groups.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
    tests = folder / RULES_TEST.name
    tests.write_text(RULES_TEST.read_text())
    command = [str(program), "test", "rules", str(tests)]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def rule_groups() -> list[Json]:
    rules = yaml.safe_load((FOLDER / "rules.yaml").read_text())
    return list(rules["spec"]["groups"])


def configuration(cluster: Cluster) -> Json:
    """What the Prometheus Operator would make of the monitors, and Kueue's own monitor."""
    monitors = yaml.safe_load_all((FOLDER / "monitors.yaml").read_text())
    scraped = [scrape_config(monitor, cluster.kubeconfig) for monitor in monitors]
    return {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [*scraped, kueue(cluster)],
    }


def scrape_config(monitor: Json, kubeconfig: Path) -> Json:
    spec = monitor["spec"]
    discovery: Json = {"role": "pod", "kubeconfig_file": str(kubeconfig)}
    if monitor["kind"] == "ScrapeConfig":
        (pods,) = spec["kubernetesSDConfigs"]
        discovery["selectors"] = [
            {"role": "pod", "label": selector["label"]} for selector in pods["selectors"]
        ]
        rules = spec["relabelings"]
    else:
        (endpoint,) = spec["podMetricsEndpoints"]
        labels = spec["selector"]["matchLabels"].items()
        text = ",".join(f"{name}={value}" for name, value in labels)
        discovery["selectors"] = [{"role": "pod", "label": text}]
        discovery["namespaces"] = {"names": spec["namespaceSelector"]["matchNames"]}
        # The operator keeps ports by number, and adds these labels.
        number = "__meta_kubernetes_pod_container_port_number"
        rules = [
            {"sourceLabels": [number], "regex": str(endpoint["portNumber"]), "action": "keep"},
            {"sourceLabels": ["__meta_kubernetes_namespace"], "targetLabel": "namespace"},
            {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "pod"},
            *endpoint["relabelings"],
        ]
    return {
        "job_name": monitor["metadata"]["name"],
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": [in_snake_case(rule) for rule in rules],
    }


def in_snake_case(rule: Json) -> Json:
    return {SNAKE_CASE[name]: value for name, value in rule.items()}


def kueue(cluster: Cluster) -> Json:
    """Its metrics need the right to read them."""
    account = ("serviceaccount", READER, "-n", KUEUE)
    binding = ("clusterrolebinding", READER, "--clusterrole=kueue-metrics-reader")
    subject = f"--serviceaccount={KUEUE}:{READER}"
    for resource in (("create", *account), ("create", *binding, subject)):
        text = cluster.kubectl(*resource, "--dry-run=client", "-o", "yaml")
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    token = cluster.kubectl("create", "token", READER, "-n", KUEUE).strip()
    discovery = {
        "role": "pod",
        "kubeconfig_file": str(cluster.kubeconfig),
        "namespaces": {"names": [KUEUE]},
    }
    port = "__meta_kubernetes_pod_container_port_number"
    return {
        "job_name": "kueue",
        "scheme": "https",
        "authorization": {"credentials": token},
        "tls_config": {"insecure_skip_verify": True},
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": [{"source_labels": [port], "regex": "8443", "action": "keep"}],
    }
