"""The values of a recipe: a TOML file, which is checked as a whole before anything is loaded."""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from elastic_runtime.mistake import Mistake

WORDS = {
    str: "a text in quotes",
    int: "a whole number, at least 0",
    float: "a number, at least 0",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table",
}


@dataclass(kw_only=True)
class Job:
    """What job.py needs; the training does not read it."""

    name: str
    namespace: str
    # With torch, Cede, and what the recipe imports.
    image: str
    # Numbers of pods, such as 2-8. The last one is the desired size.
    sizes: str
    # Of each pod; each is a worker.
    gpus: int = 1
    # A PersistentVolumeClaim that all pods share. It is mounted at /shared.
    claim: str
    # Environment variables.
    env: dict[str, Any] = field(default_factory=dict)

    def size(self) -> int:
        """The number of pods that is desired. ValueError if `sizes` has none."""
        return int(self.sizes.partition("/")[0].replace("-", ",").rpartition(",")[2])

    def mistakes(self) -> Iterator[str]:
        try:
            self.size()
        except ValueError:
            yield f"job.sizes is {self.sizes!r}: give sizes such as 2-8, 2-8/2 or 1,2,4,8"


@dataclass(kw_only=True)
class Training:
    """What all recipes have."""

    data: str
    # A directory that all pods share. A job that is started again continues from it.
    output: str
    # Samples of a step, at every size of the job.
    batch: int
    # Samples that a worker computes at once.
    micro_batch: int
    steps: int
    learning_rate: float
    # Steps.
    warmup: int = 0
    # Steps between two checkpoints, beside those before stops and after shrinks.
    save_every: int = 100
    seed: int = 0
    # Whether output/journal gets a line for every step and every micro-batch.
    journal: bool = False
    job: Job | None = None

    @property
    def micro_batches(self) -> int:
        """Of a step."""
        return self.batch // self.micro_batch

    def mistakes(self) -> Iterator[str]:
        """Of values that have the right types."""
        if not self.steps:
            yield "steps is 0: give at least 1"
        if not self.batch or not self.micro_batch or self.batch % self.micro_batch:
            yield (
                f"batch is {self.batch} and micro_batch is {self.micro_batch}: batch has to be a "
                "multiple of micro_batch, and both at least 1"
            )
        if not Path(self.data).exists():
            yield f"data is {self.data!r}, which is not in {Path.cwd()}: give a path that exists"

    def session_options(self) -> dict[str, Any]:
        """Arguments of a Session."""
        return {
            "micro_batches": self.micro_batches,
            "micro_batch_size": self.micro_batch,
            "seed": self.seed,
            "checkpoint": Path(self.output) / "session",
            "save_every": self.save_every,
            **self.journal_options(),
        }

    def journal_options(self) -> dict[str, Any]:
        return {"journal": Path(self.output) / "journal"} if self.journal else {}


T = TypeVar("T", bound=Training)


def from_command_line(kind: type[T]) -> T:
    """The values in the file that the command line names. Raises Mistake."""
    if len(sys.argv) != 2:
        recipe = Path(sys.argv[0]).name
        raise Mistake(f"give one file of values: {recipe} values/NAME.toml")
    return read(kind, Path(sys.argv[1]))


def read(kind: type[T], path: Path) -> T:
    """Raises Mistake, which names everything that is wrong."""
    table = _table(path)
    _raise_mistakes(path, _table_mistakes(kind, table, ""))
    values: T = _build(kind, table)
    _raise_mistakes(path, values.mistakes())
    return values


def read_job(path: Path) -> Job:
    """Its table `job` only. Raises Mistake."""
    table = _table(path).get("job", {})
    _raise_mistakes(path, _value_mistakes(Job, table, "job"))
    job: Job = _build(Job, table)
    _raise_mistakes(path, job.mistakes())
    return job


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise Mistake(f"there is no {path} in {Path.cwd()}: check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} is no TOML: {error}") from error


def _raise_mistakes(path: Path, mistakes: Iterable[str]) -> None:
    if wrong := list(mistakes):
        raise Mistake(f"{path}: {'; '.join(wrong)}")


def _table_mistakes(kind: type, table: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """`prefix`: of the names of its keys, with a dot."""
    known = {entry.name: entry for entry in fields(kind)}
    types = get_type_hints(kind)
    for key, value in table.items():
        if key in known:
            yield from _value_mistakes(_plain_type(types[key]), value, prefix + key)
        else:
            similar = get_close_matches(key, known, 1)
            cure = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(known)}"
            yield f"{prefix}{key} is unknown: {cure}"
    for name, entry in known.items():
        if name not in table and _is_required(entry):
            yield f"{prefix}{name} is missing: give {_words(_plain_type(types[name]))}"


def _value_mistakes(kind: type, value: Any, name: str) -> Iterator[str]:
    if is_dataclass(kind) and isinstance(value, dict):
        yield from _table_mistakes(kind, value, f"{name}.")
    elif not _fits(kind, value):
        yield f"{name} is {value!r}: give {_words(kind)}"


def _fits(kind: type, value: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int | float):
        return kind in (type(value), float) and value >= 0
    if isinstance(value, list):
        return kind is list and all(isinstance(entry, str) for entry in value)
    return kind is type(value)


def _plain_type(hint: Any) -> type:
    """`list[str]` → list; `Job | None` → Job."""
    if isinstance(hint, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    origin: type = get_origin(hint) or hint
    return origin


def _words(kind: type) -> str:
    return WORDS.get(kind, "a table")


def _is_required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _build(kind: type, table: Mapping[str, Any]) -> Any:
    types = get_type_hints(kind)
    given = {key: _converted(_plain_type(types[key]), value) for key, value in table.items()}
    return kind(**given)


def _converted(kind: type, value: Any) -> Any:
    if is_dataclass(kind):
        return _build(kind, value)
    return float(value) if kind is float else value
