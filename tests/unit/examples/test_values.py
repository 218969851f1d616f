"""The values of recipes, and the jobs that are made of them."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.builders.jobs import TEAM
from tests.harness.recipes import RECIPES, module
from webhook.admission import AdmissionRequest
from webhook.rules import complaints

values: Any = module("values")
job: Any = module("job")


# --- values ---------------------------------------------------------------------------------------
@dataclass(kw_only=True)
class Lora:
    rank: int
    targets: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Values(values.Training):  # type: ignore[misc]
    model: str
    bf16: bool = True
    lora: Lora | None = None


RIGHT = """
model = "random:llama"
data = "."
output = "out"
batch = 8
micro_batch = 2
steps = 10
learning_rate = 1e-3
"""


def read(directory: Path, text: str) -> Any:
    path = directory / "values.toml"
    path.write_text(text)
    return values.read(Values, path)


def test_values_have_their_types_and_defaults(tmp_path: Path) -> None:
    got = read(tmp_path, RIGHT.replace("1e-3", "1") + "[lora]\nrank = 4\ntargets = ['q_proj']")
    assert got == Values(
        model="random:llama",
        data=".",
        output="out",
        batch=8,
        micro_batch=2,
        steps=10,
        learning_rate=1.0,
        lora=Lora(rank=4, targets=["q_proj"]),
    )
    assert isinstance(got.learning_rate, float)
    assert (got.micro_batches, got.lora.rank, got.job) == (4, 4, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            RIGHT + "stepz = 1", "stepz is unknown: did you mean steps?", id="almost a name"
        ),
        pytest.param(RIGHT + "q = 1", "q is unknown: there are data, output, batch", id="no name"),
        pytest.param(
            RIGHT + "bf16 = 'yes'", "bf16 is 'yes': give true or false", id="no truth value"
        ),
        pytest.param(
            RIGHT.replace("= 10", "= 2.5"),
            "steps is 2.5: give a whole number",
            id="no whole number",
        ),
        pytest.param(
            RIGHT.replace("= 10", "= true"), "steps is True: give a whole number", id="no number"
        ),
        pytest.param(
            RIGHT.replace("= 10", "= -1"), "steps is -1: give a whole number, at least 0", id="sign"
        ),
        pytest.param(
            RIGHT.replace("steps = 10", ""), "steps is missing: give a whole number", id="missing"
        ),
        pytest.param(RIGHT + "lora = 4", "lora is 4: give a table", id="no table"),
        pytest.param(
            RIGHT + "[lora]\nalpha = 4",
            "lora.rank is missing: give a whole number",
            id="in a table",
        ),
        pytest.param(
            RIGHT + "[lora]\nrank = 4\ntargets = [1]", "lora.targets is [1]: give a list", id="list"
        ),
        pytest.param(
            RIGHT.replace("= 2\n", "= 3\n"), "batch is 8 and micro_batch is 3", id="no multiple"
        ),
        pytest.param(
            RIGHT.replace("= 2\n", "= 0\n"), "batch is 8 and micro_batch is 0", id="a batch of none"
        ),
        pytest.param(RIGHT.replace('"."', '"no"'), "data is 'no', which is not in", id="no data"),
        pytest.param("steps", "is no TOML", id="another format"),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r"values\.toml") as error:
        read(tmp_path, text)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"stepz is unknown.*model is missing"):
        read(tmp_path, RIGHT.replace("model", "stepz"))


def test_a_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fine_tune.py", "no.toml"])
    with pytest.raises(ValueError, match=r"there is no no\.toml in"):
        values.from_command_line(Values)


def test_the_command_line_names_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fine_tune.py"])
    with pytest.raises(ValueError, match=r"give one file of values: fine_tune\.py values/NAME"):
        values.from_command_line(Values)


# --- the job in a cluster -------------------------------------------------------------------------
@pytest.mark.parametrize("path", sorted(RECIPES.glob("values/*.toml")), ids=lambda path: path.stem)
def test_every_values_file_gives_a_job_that_the_cluster_accepts(path: Path) -> None:
    recipe = RECIPES / "fine_tune.py"
    files, training = job.objects(recipe, path, values.read_job(path))["items"]
    assert complaints(AdmissionRequest(training, user="alice", team=TEAM)) == []
    pod = training["spec"]["template"]["spec"]
    mounted = {volume["name"]: volume for volume in pod["volumes"]}
    assert mounted["recipe"]["configMap"]["name"] == files["metadata"]["name"]
    [container] = pod["containers"]
    named = [word for word in [*container["command"], *container["args"]] if "/recipe/" in word]
    assert [Path(word).name for word in named] == ["fine_tune.py", "values.toml"]
    assert set(files["data"]) >= {"fine_tune.py", "values.py", "samples.py", "values.toml"}


@pytest.mark.parametrize(("sizes", "expected"), [("2-8", 8), ("2-8/2", 8), ("1,2,4", 4), ("3", 3)])
def test_the_desired_size_is_the_largest(sizes: str, expected: int) -> None:
    named = {"name": "a", "namespace": "b", "image": "c", "claim": "d"}
    assert values.Job(**named, sizes=sizes).size() == expected


def test_values_without_a_job_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "values.toml"
    path.write_text(RIGHT)
    with pytest.raises(ValueError, match=r"job\.name is missing"):
        values.read_job(path)
