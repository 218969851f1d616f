"""Documents in files of JSON lines, as a stream of tokens that is cut into samples."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BYTES = "bytes"


class Tokenizer:
    """`name`: a tokenizer.json of Hugging Face, or `bytes`. `end`: its token after a document."""

    def __init__(self, name: str, end: str) -> None:
        self._tokenizer: Any = None
        self.vocabulary, self.end = 257, 256
        if name != BYTES:
            from tokenizers import Tokenizer as Loaded

            self._tokenizer = Loaded.from_file(name)
            self.vocabulary = self._tokenizer.get_vocab_size()
            self.end = self._tokenizer.token_to_id(end)

    def encode(self, text: str) -> list[int]:
        """With the token after it."""
        ids = self._tokenizer.encode(text).ids if self._tokenizer else list(text.encode())
        return [*ids, self.end]


@dataclass
class Place:
    """Where a sample begins: in which file, line and token of it. `offset`: of the line, bytes."""

    file: int = 0
    line: int = 0
    offset: int = 0
    token: int = 0


class TokenStream:
    """Stream `number` of `count`, as `session.streams` opens it: samples of `context` + 1 tokens.

    Each begins with the last token of the one before. What is left at the end of an epoch is not
    used. If there are fewer files than streams, every stream reads all of them, and uses one line
    in `count`.
    """

    def __init__(
        self,
        files: Sequence[Path],
        tokenizer: Tokenizer,
        context: int,
        number: int,
        count: int,
        epoch: int,
    ) -> None:
        order = list(files)
        # Alike in every process.
        random.Random(epoch).shuffle(order)  # noqa: S311 (an order is no secret)
        self._has_own_files = len(order) >= count
        self._files = order[number::count] if self._has_own_files else order
        self._tokenizer = tokenizer
        self._context = context
        self._number, self._count = number, count
        self._place = Place()

    def state_dict(self) -> dict[str, int]:
        return asdict(self._place)

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._place = Place(**state)

    def __iter__(self) -> Iterator[list[int]]:
        size = self._context + 1
        sample = list[int]()
        for place, tokens in self._documents():
            while place.token < len(tokens):
                taken = tokens[place.token : place.token + size - len(sample)]
                place.token += len(taken)
                sample += taken
                if len(sample) == size:
                    place.token -= 1
                    self._place = Place(**asdict(place))
                    yield sample
                    sample = []

    def _documents(self) -> Iterator[tuple[Place, list[int]]]:
        """From the present place on, each with the place where its use begins."""
        place = Place(**asdict(self._place))
        while place.file < len(self._files):
            with self._files[place.file].open("rb") as file:
                file.seek(place.offset)
                while line := file.readline():
                    if self._is_own(place.line) and line.strip():
                        tokens = self._tokenizer.encode(json.loads(line)["text"])
                        yield Place(**asdict(place)), tokens
                    place = Place(place.file, place.line + 1, place.offset + len(line))
            place = Place(place.file + 1)

    def _is_own(self, line: int) -> bool:
        return self._has_own_files or line % self._count == self._number
