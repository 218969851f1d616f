"""What an agent knows when it starts, from the environment that the webhook or `--local` wrote."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent.hang_detection import Patience
from elastic_runtime.agent.signing_keys import KeyFile, Keys

# Host of pod 0 when all pods run on one machine.
LOCAL_HOST_ENV = "CEDE_LOCAL"
# The process that started them: they end with it.
LAUNCHER_ENV = "CEDE_LAUNCHER"
# Beside the key of a local job: a file for each pod, with its control port.
PORTS = "ports"
# An agent writes the next three for its workers. The descriptor of the socket to the agent; a
# script that runs without an agent does not have it.
AGENT_FD_ENV = "CEDE_AGENT_FD"
# Processes that a worker starts inherit the environment, and are no workers.
AGENT_PID_ENV = "CEDE_AGENT_PID"
# A name of our own: a library that sees LOCAL_RANK expects all that torchrun sets.
LOCAL_RANK_ENV = "CEDE_LOCAL_RANK"
# For a script that is restarted at each size: which signal asks it to save and end.
STOP_SIGNAL_ENV = "CEDE_STOP_SIGNAL"
# The file in which such a script writes its progress.
PROGRESS_FILE_ENV = "CEDE_PROGRESS_FILE"
# Of the processes of a pod that die again and again without a new committed step.
MAX_RESTARTS = 3
RESOLVER = Path("/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class PodSettings:
    index: int
    job: str
    job_uid: str
    keys: Keys
    # Where the other pods reach this one.
    address: str
    # Host and control port of pod 0, which every agent asks first for the coordinator.
    first_host: str
    first_port: int
    # Of this pod's control server; 0 takes a free one.
    port: int
    # Where it listens; None: at all addresses.
    host: str | None = None
    # The process that started all pods of this machine; 0 in a cluster.
    launcher: int = 0
    # The domain of the pods' names; empty if all pods run on this machine.
    peers: str = ""
    # Pods of the base of a job, and the Job of all others: the surplus; 0 if there is no such Job.
    base_size: int = 0
    surplus: str = ""
    # On one machine: the folder where each pod writes its control port.
    ports: Path | None = None
    # Of the allowed sizes.
    smallest: int = 1
    largest: int = 1
    # Processes per pod.
    ranks: int = 1
    grace_s: float = 30.0
    max_restarts: int = MAX_RESTARTS
    patience: Patience = field(default_factory=Patience)
    # Where each worker's output goes, besides the console: nowhere if it is None.
    log_dir: Path | None = None
    # Which output also goes to the console, with the worker's name: 1 stdout, 2 stderr, 3 both.
    tee: int = 0


def allowed_sizes(env: Mapping[str, str]) -> list[int]:
    """In pods, ascending. A local job has no list: only 1."""
    return [int(size) for size in env.get(contract.SIZES_ENV, "1").split(",")]


def whole_name(service: str, namespace: str, resolver: str) -> str:
    """The name of a Service for the whole cluster, ending in a dot; `service` if it is unknown.

    `resolver`: what resolv.conf(5) has in the pod, where the kubelet wrote the domain of its
    namespace. Of a shorter name nobody learns that it does not exist: it is asked for as it is too,
    and a name server may be unable to answer for names outside of the cluster.
    """
    lines = [line.split() for line in resolver.splitlines() if line.startswith("search")]
    # The last line counts.
    searched = lines[-1][1:] if lines else []
    domains = [domain for domain in searched if domain.startswith(f"{namespace}.svc.")]
    return f"{service}.{domains[0].rstrip('.')}." if service and namespace and domains else service


def from_environment(env: Mapping[str, str]) -> PodSettings:
    """Raises KeyError or OSError that names what is missing."""
    base_size = int(env.get(contract.BASE_SIZE_ENV, "0"))
    own_job = env[contract.JOB_ENV]
    job = env.get(contract.BASE_JOB_ENV, own_job)
    # Pods of a surplus count on from those of its base.
    offset = base_size if contract.BASE_JOB_ENV in env else 0
    index = int(env.get(contract.INDEX_ENV, "0")) + offset
    port = int(env.get(contract.PORT_ENV, contract.PORT))
    sizes = allowed_sizes(env)
    key = Path(env.get(contract.KEY_FILE_ENV, contract.KEY_FILE))
    local_host = env.get(LOCAL_HOST_ENV)
    default = Patience()
    resolver = ""
    with suppress(OSError):
        resolver = RESOLVER.read_text(errors="replace")
    service, namespace = env.get(contract.PEERS_ENV, ""), env.get(contract.NAMESPACE_ENV, "")
    peers = whole_name(service, namespace, resolver)
    return PodSettings(
        index=index,
        job=job,
        job_uid=env.get(contract.BASE_UID_ENV) or env[contract.JOB_UID_ENV],
        keys=KeyFile(key),
        address=env.get(contract.POD_IP_ENV, "127.0.0.1"),
        first_host=local_host or f"{job}-0.{peers}",
        first_port=port,
        port=port if index == 0 or not local_host else 0,
        host=local_host,
        launcher=int(env.get(LAUNCHER_ENV, "0")),
        peers="" if local_host else peers,
        base_size=base_size,
        surplus=own_job if offset else env.get(contract.SURPLUS_ENV, ""),
        ports=key.parent / PORTS if local_host else None,
        smallest=offset or min(sizes),
        largest=offset + max(sizes),
        ranks=int(env.get(contract.RANKS_ENV, "1")),
        grace_s=float(env.get(contract.GRACE_ENV, "30")),
        patience=Patience(
            liveness_timeout_s=float(
                env.get(contract.LIVENESS_TIMEOUT_ENV, default.liveness_timeout_s)
            ),
            step_timeout_s=float(env.get(contract.STEP_TIMEOUT_ENV, default.step_timeout_s)),
        ),
    )
