"""python -m tests.machine.checks: what must hold in the machine, one check after the other.

Each leaves what the next one needs. A check that fails ends the run with what is known about it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from deploy.demo.figures import merged
from deploy.local import requirements
from deploy.local.control_plane import HOST_MAC
from deploy.local.paths import Paths
from tests.e2e.conftest import EXAMPLES, RESEARCH, sleeper
from tests.e2e.training import Training
from tests.harness.local_cluster import Cluster, deploy_local
from tests.harness.traces import traces
from tests.machine.disk import CACHE
from tests.paths import TREE

WAIT_S = 1800
"""Of the machine's own clock, for what takes seconds on a machine that is not emulated."""
OWNER = ("vision", "claim")
ELASTIC = "gpt"
REST = 9.0
"""A kubectl takes the only core for a second or two."""
# a step is long here
GRACE = '{"spec": {"mode": "Enforce", "preemption": {"graceSeconds": 300}}}'


def read(path: str) -> str:
    return Path(path).read_text().strip()


def output(*command: str) -> str:
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout.strip()


def make(target: str) -> None:
    """Prints what it prints. Raises AssertionError if it fails."""
    code = subprocess.run(["make", target], cwd=TREE, check=False).returncode
    assert code == 0, f"make {target} ended with exit code {code}"


def local_cluster() -> Cluster:
    paths = Paths(Path(CACHE))
    return Cluster(paths.kubeconfig, paths.kubectl, REST)


def training() -> Training:
    return Training(local_cluster(), RESEARCH, ELASTIC)


# --- the machine ----------------------------------------------------------------------------------
def check_system() -> str:
    assert read("/etc/debian_version").startswith("12"), "not Debian 12"
    assert read("/proc/1/comm") == "systemd", "process 1 is not systemd"
    mounted = output("stat", "-f", "-c", "%T", "/sys/fs/cgroup")
    assert mounted == "cgroup2fs", f"/sys/fs/cgroup is {mounted}"
    assert read("/sys/module/apparmor/parameters/enabled") == "Y", "AppArmor is off"
    return f"Debian {read('/etc/debian_version')}, systemd, cgroup v2, AppArmor"


def check_nothing_is_there() -> str:
    assert traces() == set()
    return "no trace of a cluster"


# --- the cluster ----------------------------------------------------------------------------------
def check_up() -> str:
    make("up")
    address = read("/sys/class/net/cede0/address")
    assert address == HOST_MAC, f"udev replaced the address of cede0: {address}"
    return "make up, without a network"


def check_controllers() -> str:
    status = json.loads(deploy_local("status", "-o", "json"))
    replicas: dict[str, str] = status["kueue-system"] | status[names.SYSTEM_NAMESPACE]
    assert replicas, "no controllers"
    missing = [name for name, count in replicas.items() if len(set(count.split("/"))) > 1]
    assert not missing, f"not available: {', '.join(missing)}"
    return f"available: {', '.join(sorted(replicas))}"


def allocation(team: str, accelerators: int, strategy: str) -> Json:
    return {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ComputeAllocation",
        "metadata": {"name": team},
        "spec": {
            "quotas": [{"instanceType": "local-4gpu", "accelerators": accelerators}],
            "sharing": {"strategy": strategy},
        },
    }


ALLOCATIONS = (
    allocation(OWNER[0], 1, "LendAndBorrow"),
    allocation(RESEARCH, 1, "LendAndBorrow"),
    allocation("others", 6, "DontLend"),
)
"""Each worker imports torch, so that two accelerators are traded, and not all eight."""


def elastic_job() -> Json:
    """The example with one pod or two, which are on nodes of their own."""
    job: Json = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"]["annotations"][names.SIZES] = "1-2"
    job["spec"] |= {"parallelism": 2, "completions": 2}
    job["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": ELASTIC}},
        }
    ]
    return job


def check_training() -> str:
    cluster = local_cluster()
    cluster.kubectl("apply", "-f", str(EXAMPLES / "policy.yaml"))
    for team in ALLOCATIONS:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(team))
    cluster.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", GRACE)
    teams = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *teams, "--for=condition=Ready", f"--timeout={WAIT_S}s")
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(elastic_job()))
    cluster.until(training().trains_on(2), "the job to train on 2 pods", WAIT_S)
    nodes = {pod["spec"]["nodeName"] for pod in training().pods()}
    assert len(nodes) == 2, f"both pods are on {nodes}"
    return "an elastic job trains on 2 pods, one on each node"


def check_confinement() -> str:
    profiles = set(training().read_all("/proc/1/attr/current"))
    assert profiles == {"cri-containerd.apparmor.d (enforce)"}, f"AppArmor: {profiles}"
    denials = [line for line in output("dmesg").splitlines() if 'apparmor="DENIED"' in line]
    assert not denials, denials[-1]
    groups = list(Path("/sys/fs/cgroup/cede").glob("n*/kubepods/**/memory.max"))
    assert groups, "no pod has a cgroup"
    return "its pods are confined by AppArmor, in cgroups of their nodes"


def check_take_back() -> str:
    cluster = local_cluster()
    job = training()
    last = merged(job.steps())[-1].step
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(sleeper(*OWNER, 1)))
    owner = Training(cluster, *OWNER)
    cluster.until(lambda: bool(owner.pods()), "the owner's pod to run", WAIT_S)
    cluster.until(job.trains_on(1, last), "the job to train on with 1 pod", WAIT_S)
    cluster.until(lambda: phases(cluster) == ["Completed"], "the Cession to be Completed", WAIT_S)
    job.check_undisturbed()
    return f"a take-back, after which it trains on; {job.check_nothing_lost()} steps, none lost"


def phases(cluster: Cluster) -> list[str]:
    items = cluster.kubectl_json("get", "cessions")["items"]
    return [str(item.get("status", {}).get("phase", "")) for item in items]


def check_inotify() -> str:
    """With cgroup v2 each container takes one, and Debian's limit is low."""
    limit = int(requirements.INOTIFY_LIMIT.read_text())
    count = requirements.inotify_instances()
    assert count < requirements.INOTIFY_INSTANCES, f"{count} inotify instances, of {limit}"
    return f"root uses {count} of {limit} inotify instances"


def check_down() -> str:
    make("down")
    left = traces()
    assert left == set(), "\n".join(sorted(left))
    rules = output("nft", "list", "ruleset")
    assert not rules, f"nft: {rules}"
    return "make down leaves no process, mount, link, route, cgroup or rule"


CHECKS: tuple[Callable[[], str], ...] = (
    check_system,
    check_nothing_is_there,
    check_up,
    check_controllers,
    check_training,
    check_confinement,
    check_take_back,
    check_inotify,
    check_down,
)


def main() -> int:
    for check in CHECKS:
        began = time.monotonic()
        try:
            sentence = check()
        except (AssertionError, pytest.fail.Exception, subprocess.CalledProcessError) as error:
            print(f"{check.__name__} failed: {error}\n{evidence()}", flush=True)
            return 1
        print(f"holds: {sentence} ({time.monotonic() - began:.1f} s inside)", flush=True)
    return 0


def evidence() -> str:
    """What runs and what happened last, as far as the cluster can be asked."""
    kubectl = (sys.executable, "-m", "deploy.local", "kubectl")
    commands: tuple[tuple[str, ...], ...] = (
        (*kubectl, "get", "nodes,pods,workloads,cessions", "-A", "-o", "wide"),
        (*kubectl, "get", "events", "-A", "--sort-by=.lastTimestamp"),
        ("journalctl", "-q", "-p", "warning", "-n", "20", "--no-pager"),
    )
    texts = [
        subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=False).stdout
        for command in commands
    ]
    return "\n".join("\n".join(text.splitlines()[-30:]) for text in texts)


if __name__ == "__main__":
    sys.exit(main())
