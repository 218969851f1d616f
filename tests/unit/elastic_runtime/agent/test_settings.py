"""What an agent reads from its environment."""

from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import peers, settings
from elastic_runtime.agent.hang_detection import Patience
from elastic_runtime.agent.settings import LOCAL_HOST_ENV, from_environment, whole_name


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The least that a pod needs."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    return {
        contract.JOB_ENV: "train",
        contract.JOB_UID_ENV: "uid",
        contract.KEY_FILE_ENV: str(key),
        contract.PEERS_ENV: "train-peers",
    }


def test_pod_of_a_cluster(env: dict[str, str]) -> None:
    env |= {
        contract.INDEX_ENV: "3",
        contract.SIZES_ENV: "2,4,8",
        contract.POD_IP_ENV: "10.0.0.3",
        contract.LIVENESS_TIMEOUT_ENV: "2.5",
        contract.STEP_TIMEOUT_ENV: "600",
    }
    pod = from_environment(env)
    assert (pod.index, pod.address, pod.keys()) == (3, "10.0.0.3", (b"secret",))
    assert (pod.smallest, pod.largest) == (2, 8)
    assert (pod.first_host, pod.first_port) == ("train-0.train-peers", contract.PORT)
    assert (pod.port, pod.host) == (contract.PORT, None)
    assert pod.patience == Patience(liveness_timeout_s=2.5, step_timeout_s=600.0)


def test_pods_of_a_surplus_count_on_from_those_of_the_base(env: dict[str, str]) -> None:
    env |= {contract.BASE_SIZE_ENV: "2"}
    base = from_environment(
        env | {contract.SIZES_ENV: "2,4,8", contract.SURPLUS_ENV: "more", contract.INDEX_ENV: "1"}
    )
    surplus = from_environment(
        env
        | {
            contract.JOB_ENV: "more",
            contract.JOB_UID_ENV: "other",
            contract.BASE_JOB_ENV: "train",
            contract.BASE_UID_ENV: "uid",
            contract.SIZES_ENV: "2,6",
            contract.INDEX_ENV: "1",
        }
    )
    assert (base.index, surplus.index) == (1, 3)
    for pod in (base, surplus):
        assert (pod.job, pod.job_uid, pod.surplus, pod.base_size) == ("train", "uid", "more", 2)
        assert (pod.smallest, pod.largest, pod.first_host) == (2, 8, "train-0.train-peers")
        assert peers.find(pod, 1).address == f"train-1.train-peers:{contract.PORT}"
        assert peers.find(pod, 3).address == f"more-1.train-peers:{contract.PORT}"


def test_defaults(env: dict[str, str]) -> None:
    pod = from_environment(env)
    assert (pod.index, pod.smallest, pod.ranks, pod.grace_s) == (0, 1, 1, 30.0)
    assert pod.patience == Patience()


@pytest.mark.parametrize(("index", "port"), [(0, 7000), (1, 0)])
def test_only_pod_0_of_a_local_job_uses_its_port(
    env: dict[str, str], index: int, port: int
) -> None:
    env |= {
        LOCAL_HOST_ENV: "127.0.0.1",
        contract.PORT_ENV: "7000",
        contract.INDEX_ENV: str(index),
    }
    pod = from_environment(env)
    assert (pod.first_host, pod.first_port, pod.port) == ("127.0.0.1", 7000, port)
    assert pod.host == "127.0.0.1", "nobody else can reach it"


def test_missing_variable_or_key_is_named(env: dict[str, str], tmp_path: Path) -> None:
    without_job = {name: value for name, value in env.items() if name != contract.JOB_ENV}
    with pytest.raises(KeyError, match=contract.JOB_ENV):
        from_environment(without_job)
    with pytest.raises(OSError, match="no-key"):
        from_environment(env | {contract.KEY_FILE_ENV: str(tmp_path / "no-key")})


@pytest.mark.parametrize(
    ("resolver", "name"),
    [
        pytest.param(
            "search team.svc.cluster.local svc.cluster.local cluster.local example.com\n"
            "nameserver 10.96.0.10\noptions ndots:5\n",
            "peers.team.svc.cluster.local.",
            id="as the kubelet writes it",
        ),
        pytest.param(
            "search example.com team.svc.my.domain.\n", "peers.team.svc.my.domain.", id="own domain"
        ),
        pytest.param("search other.svc.cluster.local\n", "peers", id="of another namespace"),
        pytest.param("# no search list\n\nnameserver 10.0.0.1\n", "peers", id="no search list"),
        pytest.param("", "peers", id="no file"),
        pytest.param("# old team.svc.cluster.local\n", "peers", id="a comment"),
        pytest.param(
            "search team.svc.old\nsearch team.svc.new\n", "peers.team.svc.new.", id="two lines"
        ),
    ],
)
def test_the_service_is_asked_for_by_its_whole_name(resolver: str, name: str) -> None:
    assert whole_name("peers", "team", resolver) == name


def test_without_its_namespace_a_pod_does_not_know_the_whole_name() -> None:
    assert whole_name("peers", "", "search .svc.cluster.local\n") == "peers"


def test_other_pods_are_found_by_the_whole_name(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = tmp_path / "resolv.conf"
    monkeypatch.setattr(settings, "RESOLVER", resolver)
    assert from_environment(env).first_host == "train-0.train-peers", "there is no such file"
    resolver.write_text("search team.svc.cluster.local svc.cluster.local\n")
    env |= {contract.NAMESPACE_ENV: "team", contract.INDEX_ENV: "1"}
    pod = from_environment(env)
    assert pod.first_host == "train-0.train-peers.team.svc.cluster.local."
    port = contract.PORT
    assert peers.find(pod, 3).address == f"train-3.train-peers.team.svc.cluster.local.:{port}"
