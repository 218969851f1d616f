"""`cede submit` at each level, with the real webhook and Kueue."""

import os
import subprocess
import sys
from typing import Any

import pytest

from cede.api import names
from tests.paths import TREE
from webhook.runtime_injection import NAME as INJECTED

pytestmark = pytest.mark.cluster
COMMON = ("--image", "registry.example/training", "--name", "gpt")


def cede(user: Any, team: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"KUBECONFIG": str(user.kubeconfig)}
    command = [sys.executable, "-m", "cede.cli", *words, "-n", team]
    return subprocess.run(command, env=env, cwd=TREE, text=True, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("words", "command", "size"),
    [
        pytest.param((), "python train.py", 1, id="L0"),
        pytest.param(
            ("--gpus", "2"), "torchrun --standalone --nproc-per-node=2 train.py", 1, id="L0, GPUs"
        ),
        pytest.param(
            ("--sizes", "2-4", "--restart"),
            "python -m elastic_runtime --restart -- train.py",
            2,
            id="L1",
        ),
        pytest.param(("--sizes", "2-4"), "python -m elastic_runtime train.py", 2, id="L2"),
    ],
)
def test_a_job_of_each_level_is_admitted_as_it_was_meant(
    user: Any, team: str, words: tuple[str, ...], command: str, size: int
) -> None:
    done = cede(user, team, "submit", "train.py", *COMMON, *words)
    assert (done.returncode, done.stdout) == (0, f"job/gpt created in {team}\n"), done.stderr
    job = user.kubectl_json("get", "job", "-n", team, "gpt")
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert " ".join(container["command"]) == command
    assert job["spec"]["parallelism"] == size
    assert job["metadata"]["labels"][names.QUEUE_NAME] == names.LOCAL_QUEUE


def test_an_image_without_cede_gets_the_runtime(user: Any, team: str) -> None:
    done = cede(user, team, "submit", "train.py", *COMMON, "--sizes", "2-4", "--runtime", "inject")
    assert done.returncode == 0, done.stderr
    job = user.kubectl_json("get", "job", "-n", team, "gpt")
    [init_container] = job["spec"]["template"]["spec"]["initContainers"]
    assert init_container["name"] == INJECTED


def test_a_job_that_waits_is_not_asked_to_save(user: Any, team: str) -> None:
    cede(user, team, "submit", "train.py", *COMMON, "--sizes", "2-4")
    done = cede(user, team, "checkpoint", "gpt")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"cede: gpt does not run: see `cede explain gpt -n {team}`\n"
