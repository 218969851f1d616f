"""Random pictures, judged by Kueue's own packages and by us: no answer may differ.

`main.go` links the code of the Kueue that the local cluster runs. A failing seed is repeated with
`Picture(seed)`.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from cede.api.objects import Json
from cede.api.resources import FlavorResource, Quota
from cede.kube.decoding import decoder
from deploy.local.binaries import run_go
from scheduler.quota.assignments import assign, assignments
from scheduler.snapshot.kinds import KINDS
from scheduler.snapshot.snapshot import RawObjects, Snapshot, take
from tests.oracle.pictures import Picture
from tests.paths import TREE

pytestmark = pytest.mark.slow
Judged = list[tuple[int, Json, Snapshot]]
MODES = {"NoFit", "Preempt", "Fit"}


def _number_of_pictures() -> int:
    return settings.default.max_examples if settings.default else 0


@pytest.fixture(scope="module")
def pictures() -> list[Picture]:
    """100 of them, and 2,000 with the profile `long`."""
    return [Picture(seed) for seed in range(_number_of_pictures())]


@pytest.fixture(scope="module")
def answers(pictures: list[Picture], tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    """Of Kueue, for each picture."""
    if not shutil.which("go"):
        if os.environ.get("CI") == "true":
            pytest.fail("CI must run this: there is no Go compiler", pytrace=False)
        pytest.skip("there is no Go compiler")
    program = tmp_path_factory.mktemp("oracle") / "oracle"
    build(program)
    content = json.dumps([picture.objects for picture in pictures])
    output = subprocess.run(
        [program], input=content, capture_output=True, text=True, check=True
    ).stdout
    return list(json.loads(output))


def build(program: Path) -> None:
    """In the module of the local cluster, which names the version of Kueue."""
    source = TREE / "tests" / "oracle" / "main.go"
    run_go("", "build", "-ldflags", "-s -w", "-o", str(program), str(source))


@pytest.fixture(scope="module")
def judged(pictures: list[Picture], answers: list[Json]) -> Judged:
    """(seed, Kueue's answer, our snapshot) of each picture."""
    return [
        (seed, answer, our_snapshot(picture))
        for seed, (picture, answer) in enumerate(zip(pictures, answers, strict=True))
    ]


def our_snapshot(picture: Picture) -> Snapshot:
    kinds: dict[str, Any] = {}
    for name, objects in picture.objects.items():
        decode = decoder(KINDS[name][1])
        kinds[name] = [decode(json.dumps(obj).encode()) for obj in objects]
    return take(RawObjects(**kinds))


def by_text(amounts: Quota) -> dict[str, int]:
    return {text(key): amount for key, amount in amounts.items() if amount}


def text(key: FlavorResource) -> str:
    return " ".join(key)


def waiting(current: Snapshot, queue: str) -> list[str]:
    return ["/".join(pending.key) for pending in current.pending if pending.queue == queue]


def test_what_is_available_in_a_queue(judged: Judged) -> None:
    for seed, answer, current in judged:
        ours = {queue: available(current, queue) for queue in answer["available"]}
        assert ours == answer["available"], seed


def available(current: Snapshot, queue: str) -> dict[str, int]:
    """Kueue gives 0 where more is in use than there is; we also look at how much more."""
    keys = current.quota.queues[queue].quotas
    return {text(key): max(0, current.quota.available(queue, key)) for key in keys}


def test_which_workloads_are_tried(judged: Judged) -> None:
    for seed, answer, current in judged:
        tried = {key for keys in answer["tried"].values() for key in keys}
        ours = {"/".join(pending.key) for pending in current.pending if not pending.ineligible}
        assert ours == tried, seed


def test_the_order_of_a_queue(judged: Judged) -> None:
    for seed, answer, current in judged:
        for queue, order in answer["order"].items():
            ours = [key for key in waiting(current, queue) if key in order]
            assert ours == order, seed


def test_which_flavors_a_workload_gets(judged: Judged) -> None:
    """Where Kueue would preempt, the flavors are among those on which we look for targets."""
    for seed, answer, current in judged:
        by_key = {"/".join(pending.key): pending for pending in current.pending}
        for key, expected in answer["assigned"].items():
            pending = by_key[key]
            ours = assign(pending.pod_sets, pending.queue, current.quota)
            usage = {name: amount for name, amount in expected["usage"].items() if amount}
            assert (ours is not None) == (expected["mode"] == "Fit"), (seed, key)
            if ours is not None:
                assert by_text(ours) == usage, (seed, key)
            elif expected["mode"] == "Preempt":
                choices = assignments(pending.pod_sets, current.quota.queues[pending.queue])
                assert usage in map(by_text, choices), (seed, key)


def test_the_pictures_contain_every_kind_of_answer(answers: list[Json]) -> None:
    """Otherwise the tests above would show little."""
    assigned = [value for answer in answers for value in answer["assigned"].values()]
    assert {value["mode"] for value in assigned} == MODES
    available = [
        amount
        for answer in answers
        for amounts in answer["available"].values()
        for amount in amounts.values()
    ]
    assert min(available) == 0 < max(available)
    assert any(len(order) > 2 for answer in answers for order in answer["order"].values())
