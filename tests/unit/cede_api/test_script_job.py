"""The Job of a training script: what runs in its pods at each level, and what is refused."""

from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from cede.api.script_job import ScriptJob, manifest
from elastic_runtime.arguments import make_parser
from tests.builders.jobs import TEAM
from tests.unit.docs.test_blocks import check_job
from webhook.command_wrap import wrap

RUNTIME = ("python", "-m", "elastic_runtime")


def request(**more: Any) -> ScriptJob:
    facts = {"namespace": "vision", "script": "train.py", "image": "registry.example/training"}
    return ScriptJob(**(facts | more))


def command(job: Json) -> tuple[str, ...]:
    [container] = job["spec"]["template"]["spec"]["containers"]
    return tuple(container["command"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"sizes": "2-8"}, (*RUNTIME, "train.py", "-e", "3"), id="in place"),
        pytest.param(
            {"sizes": "2-8", "restart": True},
            (*RUNTIME, "--restart", "--", "train.py", "-e", "3"),
            id="restarted",
        ),
        pytest.param({}, ("python", "train.py", "-e", "3"), id="not elastic"),
        pytest.param({"gpus": 0}, ("python", "train.py", "-e", "3"), id="not elastic, on the CPU"),
        pytest.param(
            {"gpus": 8},
            ("torchrun", "--standalone", "--nproc-per-node=8", "train.py", "-e", "3"),
            id="not elastic, on several GPUs",
        ),
    ],
)
def test_the_command_is_that_of_the_level_and_the_webhook_accepts_it(
    options: dict[str, Any], expected: tuple[str, ...]
) -> None:
    job = manifest(request(arguments=("-e", "3"), **options))
    assert command(job) == expected
    check_job(job)


def test_the_command_of_a_restarted_script_is_that_which_the_webhook_makes_of_torchrun() -> None:
    job = manifest(request(sizes="2-8", restart=True, arguments=("-e", "3")))
    assert list(command(job)) == wrap(["torchrun", "train.py", "-e", "3"], 1)


@pytest.mark.parametrize("restart", [False, True])
def test_the_launcher_takes_no_argument_of_the_script_for_its_own(restart: bool) -> None:
    job = manifest(request(sizes="2-8", restart=restart, arguments=("--local", "4", "-m")))
    parsed = make_parser().parse_args(command(job)[len(RUNTIME) :])
    assert [word for word in parsed.script if word != "--"] == ["train.py", "--local", "4", "-m"]
    assert (parsed.restart, parsed.local, parsed.module) == (restart, None, False)


@pytest.mark.parametrize("sizes", ["2-8", None])
def test_the_webhook_brings_the_runtime_where_it_is_asked_for(sizes: str | None) -> None:
    assert TEAM.runtime_image
    job = manifest(request(sizes=sizes, runtime="inject"))
    assert job["metadata"]["annotations"][names.RUNTIME] == names.INJECT
    check_job(job)


def test_a_job_without_options_has_nothing_but_a_pod() -> None:
    job = manifest(request())
    assert job["metadata"] == {"name": "train", "namespace": "vision"}
    assert set(job["spec"]) == {"template"}


def test_the_desired_size_is_the_largest_or_the_one_that_was_asked_for() -> None:
    assert manifest(request(sizes="2-8"))["spec"]["parallelism"] == 8
    job = manifest(request(sizes="2-8", desired=4))
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 4


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("train.py", "train"),
        ("/scripts/My Models/pre_train.v2.py", "pre-train-v2"),
        ("run", "run"),
    ],
)
def test_the_name_is_that_of_the_script(script: str, name: str) -> None:
    assert manifest(request(script=script))["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"sizes": "8-2"}, "sizes: '8-2' runs from 8 down to 2", id="sizes"),
        pytest.param({"sizes": ""}, "sizes: '' is no list of sizes", id="empty sizes"),
        pytest.param({"sizes": "2-8", "desired": 9}, "desired: 9 is not among", id="desired"),
        pytest.param({"desired": 2}, "desired: a job without sizes has one pod", id="one pod"),
        pytest.param({"restart": True}, "restart: only a job with sizes", id="restart"),
        pytest.param(
            {"runtime": "none"}, "runtime: 'none' is not known: use image or inject", id="r"
        ),
        pytest.param({"grace": "soon"}, "grace: 'soon' is not a duration", id="grace"),
        pytest.param({"name": "My_Job"}, "name: 'My_Job' is no name of a Job", id="name"),
        pytest.param({"script": "___.py"}, "name: '' is no name of a Job", id="no name is left"),
        pytest.param({"gpus": -1}, "gpus: -1 is less than 0", id="GPUs"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        manifest(request(**options))
