"""What recipes make of lines of JSON: samples, and streams of tokens."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.harness.recipes import module

samples: Any = module("samples")
token_streams: Any = module("token_streams")


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
