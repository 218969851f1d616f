"""Every worker that shares a machine's GPUs has its own."""

import pytest
import torch

import elastic_runtime

POD = {"CEDE_RANKS_PER_POD": "2", "CEDE_LOCAL_RANK": "1", "JOB_COMPLETION_INDEX": "1"}
LOCAL = {"CEDE_LOCAL": "127.0.0.1"}


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        pytest.param({}, 0, id="a script without an agent"),
        pytest.param(POD, 1, id="a pod has GPUs of its own"),
        pytest.param(POD | LOCAL, 3, id="the pods of a local job share them"),
    ],
)
@pytest.mark.usefixtures("four_gpus")
def test_a_worker_has_a_gpu_of_its_own(
    environment: dict[str, str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert elastic_runtime.device() == torch.device("cuda", number)


@pytest.mark.usefixtures("four_gpus")
def test_more_workers_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (POD | LOCAL | {"JOB_COMPLETION_INDEX": "2"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"worker 5 .* has 4 GPUs: start at most 4 workers"):
        elastic_runtime.device()


def test_without_a_gpu_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert elastic_runtime.device() == torch.device("cpu")
