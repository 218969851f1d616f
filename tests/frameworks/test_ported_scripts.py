"""Scripts that use Lightning, Accelerate, WebDataset or torchdata, before and after.

`make test-integrations` runs this, in an environment that has their packages.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.harness.local_job import Job, check_exactly_once
from tests.harness.ported_scripts import (
    DOUBLES,
    PORTING,
    changed,
    counted_changes,
    losses,
    write_slow_data,
)
from tests.marks import in_long
from tests.paths import TREE

PACKAGES = {
    "with_lightning": "lightning",
    "with_accelerate": "accelerate",
    "web_shards": "webdataset",
    "stateful_loader": "torchdata",
}
# More than a job does until it has been resized and has lost a worker.
STEPS = 300
MICRO_BATCHES = {"web_shards": 4, "stateful_loader": 4}
SEVERAL = TREE / "tests" / "processes" / "scripts" / "several.py"


def test_the_page_of_frameworks_counts_the_changes() -> None:
    assert counted_changes("frameworks.md") == {name: changed(name) for name in PACKAGES}


@pytest.fixture(scope="module")
def plain_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every script leaves in its folder when it runs by itself, as it was and elastic."""
    directory = tmp_path_factory.mktemp("plain")
    job = Job(directory, "")
    (directory / "made_up.py").symlink_to(PORTING / "made_up.py")
    make_shards = f"{DOUBLES}\n{(PORTING / 'made_up_shards.py').read_text()}"
    command = [sys.executable, "-c", make_shards, "shards"]
    subprocess.run(command, cwd=directory, env=job.env, check=True)
    scripts = [f"{name}_before:50" for name in PACKAGES] + [f"{name}:{STEPS}" for name in PACKAGES]
    command = [sys.executable, "-W", "ignore", str(SEVERAL), str(PORTING), str(directory)]
    result = subprocess.run(
        [*command, *scripts], cwd=directory, env=job.env, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    return directory


@pytest.mark.processes
@pytest.mark.skipif(
    not all(find_spec(package) for package in PACKAGES.values()),
    reason="run make test-integrations",
)
@pytest.mark.parametrize(
    "name", ["with_lightning", "web_shards", *in_long("with_accelerate", "stateful_loader")]
)
def test_resizes_and_a_lost_worker_change_no_loss(
    tmp_path: Path, plain_runs: Path, name: str
) -> None:
    undisturbed = losses(plain_runs / name)
    write_slow_data(tmp_path)
    (tmp_path / "shards").symlink_to(plain_runs / "shards")
    script = (PORTING / f"{name}.py").read_text()
    arguments = ("--steps", str(STEPS), "--out", "log")
    job = Job(tmp_path, f"{DOUBLES}\n{script}", arguments=arguments)
    try:
        job.start(0, 1)
        job.trains(2)
        job.resize(1)
        job.trains(1)
        job.resize(2)
        before = job.trains(2)
        job.kill_rank(1)
        job.resumes(before, 2)
        job.stop()
    finally:
        job.kill()
    expected = [undisturbed[step] for step in range(1, max(undisturbed) + 1)]
    assert check_exactly_once(job, lambda _: expected, MICRO_BATCHES.get(name, 8)) > 10
    sizes = {line["size"] for line in job.lines("steps-*")}
    assert sizes == {1, 2}
