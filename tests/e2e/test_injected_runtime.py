"""Jobs of other kinds whose image has nothing of Cede: the webhook brings the runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.local.store import PAUSE
from tests.e2e.conftest import (
    RESEARCH,
    apply,
    claim,
    end_claim,
    job_of,
    job_set_of,
    let_claim_run,
    shared_folder,
)
from tests.e2e.gentle_jobs import ARGUMENTS, of_cede_torch, restarted_steps, write_script
from tests.marks import LONG
from tests.paths import TREE
from webhook.runtime_injection import MOUNT

pytestmark = [
    pytest.mark.cluster,
    LONG,
]
# the fixture of tests/conftest.py
Cluster = Any
ANNOTATIONS = {names.RUNTIME: names.INJECT, names.GRACE: "60s"}
FIND = "import elastic_runtime; print(elastic_runtime.__path__[0])"


def of_train_job(folder: Path) -> Json:
    return of_cede_torch(folder, 2, ANNOTATIONS, image=PAUSE)


def of_job_set(folder: Path) -> Json:
    start = ["python", "-m", "elastic_runtime", "--restart", "--"]
    job = job_of("injected", [*start, write_script(folder), *ARGUMENTS], ANNOTATIONS)
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["image"] = PAUSE
    container["resources"]["limits"][names.GPU] = "2"
    return job_set_of(job)


@pytest.mark.parametrize("make", [of_job_set, of_train_job])
def test_pods_have_the_runtime_that_their_image_lacks_also_when_they_come_back(
    lent: Cluster, make: Callable[[Path], Json]
) -> None:
    """All ranks, two in each pod, save after the same step when the job is stopped."""
    folder = shared_folder(lent) / f"injected-{uuid4().hex[:8]}"
    job = make(folder)

    def trains_beyond(step: int) -> bool:
        later = [line["world"] for line in restarted_steps(folder) if line["step"] > step]
        return later[-5:] == [4] * 5

    lent.kubectl("apply", "--server-side", "-k", str(TREE / "deploy/components/trainer"))
    # the webhook of a kind that Kueue has just begun to watch may not answer yet
    lent.until(lambda: apply(lent, job), f"the {job['kind']}", 60)
    lent.until(lambda: trains_beyond(20), "its steps", 240)
    before = pods_of(lent, job)
    assert runtimes(lent, before) == {f"{MOUNT}/elastic_runtime"}

    claim(lent, 4)
    let_claim_run(lent)
    lent.until(lambda: not pods_of(lent, job), "its pods to be gone", 90)
    stopped_at = restarted_steps(folder)[-1]["step"]
    end_claim(lent)
    lent.until(lambda: trains_beyond(stopped_at + 20), "its next steps", 240)
    after = pods_of(lent, job)
    assert not {*before} & {*after}
    assert runtimes(lent, after) == {f"{MOUNT}/elastic_runtime"}
    numbers = [line["step"] for line in restarted_steps(folder)]
    assert numbers == [*range(1, len(numbers) + 1)]


def pods_of(cluster: Cluster, job: Json) -> list[str]:
    """Their names, which are others when the job comes back."""
    selector = f"jobset.sigs.k8s.io/jobset-name={job['metadata']['name']}"
    return str(cluster.kubectl("get", "pods", "-n", RESEARCH, "-l", selector, "-o", "name")).split()


def runtimes(cluster: Cluster, pods: list[str]) -> set[str]:
    """Where pods find the runtime. Their image alone has none."""
    for pod in pods:
        with pytest.raises(AssertionError, match="No module named 'elastic_runtime'"):
            in_pod(cluster, pod, "-I", "-c", FIND)
    return {in_pod(cluster, pod, "-c", FIND) for pod in pods}


def in_pod(cluster: Cluster, pod: str, *words: str) -> str:
    """What this pod's Python prints."""
    return str(cluster.kubectl("exec", "-n", RESEARCH, pod, "--", "python", *words)).strip()
