"""The parts of examples/recipes that need no framework. tests/frameworks/test_recipes.py trains."""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.builders.jobs import TEAM
from tests.paths import TREE
from webhook.admission import AdmissionRequest
from webhook.rules import complaints

RECIPES = TREE / "examples" / "recipes"


def module(name: str) -> Any:
    """A module beside the recipes, as these import it."""
    sys.path.insert(0, str(RECIPES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(RECIPES))


values: Any = module("values")
samples: Any = module("samples")
token_streams: Any = module("token_streams")
job: Any = module("job")


# --- values ---------------------------------------------------------------------------------------
@dataclass(kw_only=True)
class Lora:
    rank: int
    targets: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Values(values.Training):  # type: ignore[misc, name-defined]
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


# --- samples --------------------------------------------------------------------------------------
class Letters:
    """A tokenizer whose tokens are letters."""

    eos_token_id = 0

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [1] * add_special_tokens + [ord(letter) for letter in text]}

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool = False
    ) -> str:
        text = "".join(f"{message['role'][0]}{message['content']}." for message in messages)
        return text + "a" * add_generation_prompt


def sample(directory: Path, line: str, max_tokens: int = 99) -> tuple[str, str]:
    """Its tokens, and which of them count, as letters."""
    path = directory / "data.jsonl"
    path.write_text(f"\n{line}\n")
    got = samples.TokenSamples(str(path), Letters(), max_tokens)[0]
    ids, labels = got["input_ids"], got["labels"]
    assert len(ids) == len(labels)
    return "".join(map(letter, ids)), "".join(map(letter, labels))


def letter(token: int) -> str:
    return {0: "$", 1: "^", samples.IGNORED: "-"}.get(token) or chr(token)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": "ab"}, ("^ab$", "^ab$")),
        ({"prompt": "ab", "completion": "c"}, ("^abc$", "---c$")),
        (
            {
                "messages": [
                    {"role": "user", "content": "x"},
                    {"role": "assistant", "content": "y"},
                ]
            },
            ("ux.ay.", "----y."),
        ),
    ],
    ids=["text", "prompt and completion", "messages"],
)
def test_every_form_of_a_sample_has_its_tokens(
    tmp_path: Path, row: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert sample(tmp_path, json.dumps(row)) == expected


def test_a_long_sample_is_cut(tmp_path: Path) -> None:
    row = {"prompt": "ab", "completion": "cdef"}
    assert sample(tmp_path, json.dumps(row), 4) == ("^abc", "---c")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "data.jsonl, sample 0: this is no JSON"),
        ("[]", "sample 0: [] is no JSON object"),
        ('{"prompt": "a"}', "sample 0 has no 'completion': give text, prompt and completion"),
    ],
)
def test_a_line_that_is_no_sample_is_named(tmp_path: Path, line: str, expected: str) -> None:
    with pytest.raises(ValueError, match="sample 0") as error:
        sample(tmp_path, line)
    assert expected in str(error.value)


# --- streams of tokens ----------------------------------------------------------------------------
CONTEXT = 5


def write_documents(directory: Path, files: int) -> list[Path]:
    """Of different lengths, some shorter than a sample and some longer."""
    paths = [directory / f"{number}.jsonl" for number in range(files)]
    for number, path in enumerate(paths):
        texts = ["abcdefghijklmnop"[: 1 + (7 * i + number) % 16] for i in range(9)]
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return paths


def stream(paths: list[Path], number: int, count: int, epoch: int = 0) -> Any:
    tokenizer = token_streams.Tokenizer("bytes", "")
    return token_streams.TokenStream(paths, tokenizer, CONTEXT, number, count, epoch)


def tokens_of(iterator: Iterator[list[int]]) -> list[int]:
    """Each sample begins with the last token of the one before."""
    tokens = list[int]()
    for got in iterator:
        assert len(got) == CONTEXT + 1
        assert not tokens or tokens[-1] == got[0]
        tokens += got[1:] if tokens else got
    return tokens


@pytest.mark.parametrize("count", [1, 3, 4])
def test_streams_have_every_document_once(tmp_path: Path, count: int) -> None:
    """With a file for each, and with fewer files than streams."""
    paths = write_documents(tmp_path, 3)
    own = [tokens_of(iter(stream(paths, number, count))) for number in range(count)]
    ends = sum(tokens.count(256) for tokens in own)
    # What is left at the end of a stream is not used.
    assert 3 * 9 - 2 * CONTEXT * count <= ends <= 3 * 9
    lines = "".join(path.read_text() for path in paths).splitlines()
    whole = sum(len(json.loads(line)["text"]) + 1 for line in lines)
    assert 0 <= whole - sum(map(len, own)) < (CONTEXT + 1) * count


@pytest.mark.parametrize("count", [1, 4])
def test_a_stream_continues_from_its_state(tmp_path: Path, count: int) -> None:
    paths = write_documents(tmp_path, 3)
    whole = list(stream(paths, 0, count))
    for read_before in range(len(whole)):
        first = stream(paths, 0, count)
        assert list(islice(first, read_before)) == whole[:read_before]
        second = stream(paths, 0, count)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert list(second) == whole[read_before:]


def test_epochs_have_other_orders(tmp_path: Path) -> None:
    paths = write_documents(tmp_path, 3)
    orders = [list(stream(paths, 0, 1, epoch)) for epoch in range(4)]
    assert any(order != orders[0] for order in orders)
