"""The form of source files: length, width, comments, names, and where the environment is read."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laws.sources import PACKAGES, all_sources, docstring, name, sources, tracked, tree_of
from tests.paths import TREE

MAX_LINES = 300
MAX_COLUMNS = 100
PRAGMAS = ("# type:", "# noqa", "# pragma:", "#!")
GENERATED = ("deploy/crds/", "deploy/locks/")
WIDE_FILES = (
    *(".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".html", ".css", ".mjs"),
    *("Makefile", "Dockerfile", ".ci/run"),
)
BROWSER_FILES = (".mjs", ".css", ".html")
BANNED_NAMES = frozenset(
    {"found", "said", "told", "held", "seen", "each", "one", "mine", "gives", "hears", "wish"}
) | {"of", "at", "by", "to", "out"}
"""A variable is named for the thing it holds."""
ENVIRONMENT_READERS = {
    "elastic_runtime/__init__.py": "whether a Python that is too old runs it as a program",
    "elastic_runtime/agent/injection.py": "the arguments of the init container",
    "elastic_runtime/agent/worker_process.py": "passes its environment on to a worker",
    "elastic_runtime/agent/external_command.py": "passes its environment on to a command",
    "elastic_runtime/agent/restarted_rank.py": "passes its environment on to a script",
    "elastic_runtime/restart.py": "reads what torchrun gives",
    "elastic_runtime/distributed/gloo.py": "a variable of gloo's, which it reads for other groups",
    "elastic_runtime/training/agent_link.py": "what the agent gave this worker",
    "elastic_runtime/training/failure_report.py": "the same, and what may not be sent",
}


def report(violations: list[str]) -> str:
    return "\n".join(["", *violations])


# --- size -----------------------------------------------------------------------------------------
def test_no_source_file_is_longer_than_300_lines() -> None:
    browsers = [TREE / path for path in tracked() if path.endswith(BROWSER_FILES)]
    long = [
        f"{name(path)} has {count} lines: past {MAX_LINES} it has two subjects, give each a file"
        for path in (*all_sources(), *browsers)
        if (count := len(path.read_text().splitlines())) > MAX_LINES
    ]
    assert not long, report(long)


def wide_lines(path: str) -> Iterator[str]:
    """Lines above 100 columns. Rows of Markdown tables, words that cannot be broken, and pragmas
    do not count."""
    for number, text in enumerate((TREE / path).read_text().splitlines(), start=1):
        row = path.endswith(".md") and text.lstrip().startswith("|")
        line = re.sub(r"  # (type|noqa)\b.*$", "", text) if path.endswith(".py") else text
        unbreakable = " " not in line.strip(" -#") or "noqa: E501" in text
        if len(line) > MAX_COLUMNS and not row and not unbreakable:
            yield f"{path}:{number} has {len(line)} columns"


def test_no_line_is_wider_than_100_columns() -> None:
    files = [path for path in tracked() if path.endswith(WIDE_FILES)]
    wide = [line for path in files if not path.startswith(GENERATED) for line in wide_lines(path)]
    assert not wide, report(wide)


# --- comments and docstrings ----------------------------------------------------------------------
@pytest.mark.parametrize("path", sources(*PACKAGES), ids=name)
def test_a_module_opens_with_a_sentence_that_says_what_it_is_for(path: Path) -> None:
    assert docstring(path), f"{name(path)} has no docstring"


def comments(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, comment, whether code stands before it)."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, bool(token.line[: token.start[1]].strip())


def test_a_comment_stands_above_its_line() -> None:
    trailing = [
        f"{name(path)}:{number} {text}"
        for path in all_sources()
        for number, text, behind_code in comments(path)
        if behind_code and not text.startswith(PRAGMAS)
    ]
    assert not trailing, report(trailing)


def test_nothing_is_hidden_from_the_formatter() -> None:
    hidden = [
        f"{name(path)}:{number}"
        for path in all_sources()
        for number, text, _ in comments(path)
        if re.match(r"#\s*fmt:", text)
    ]
    assert not hidden, report(hidden)


# --- names ----------------------------------------------------------------------------------------
def bound_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of every variable, parameter, attribute and function that the file defines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=text, ctx=ast.Store()):
                yield node.lineno, text
            case ast.Attribute(attr=text, ctx=ast.Store()):
                yield node.lineno, text
            case ast.arg(arg=text):
                yield node.lineno, text
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                yield node.lineno, text
            case ast.MatchAs(name=str(text)) | ast.ExceptHandler(name=str(text)):
                yield node.lineno, text


def banned_names(path: Path) -> Iterator[str]:
    for number, text in bound_names(tree_of(path)):
        if text in BANNED_NAMES:
            yield f"{name(path)}:{number} {text!r}: name the thing that it holds"


def test_a_variable_is_named_for_the_thing_it_holds() -> None:
    banned = [line for path in all_sources() for line in banned_names(path)]
    assert not banned, report(banned)


# --- expressions ----------------------------------------------------------------------------------
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CONDITIONAL = (ast.IfExp,)


def nested(path: Path, kinds: tuple[type[ast.expr], ...]) -> Iterator[str]:
    """Where an expression of these kinds contains another one."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, kinds):
            inner = (other for other in ast.walk(node) if other is not node)
            if any(isinstance(other, kinds) for other in inner):
                yield f"{name(path)}:{node.lineno}"


def test_no_conditional_expression_is_nested() -> None:
    places = [place for path in all_sources() for place in nested(path, CONDITIONAL)]
    assert not places, report(places)


def test_no_comprehension_is_nested() -> None:
    places = [place for path in all_sources() for place in nested(path, COMPREHENSIONS)]
    assert not places, report(places)


# --- the environment ------------------------------------------------------------------------------
def reads_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            return (owner, attribute) in {("os", "environ"), ("os", "getenv"), ("sys", "argv")}
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in ("environ", "getenv") for alias in names)
    return False


def test_the_environment_is_read_at_the_entry_points_only() -> None:
    """In `__main__.py` and in the files of ENVIRONMENT_READERS."""
    inner = [
        path
        for path in sources(*PACKAGES)
        if path.name != "__main__.py" and name(path) not in ENVIRONMENT_READERS
    ]
    reads = [
        f"{name(path)} reads the environment: read it in __main__.py and pass it on"
        for path in inner
        if any(map(reads_environment, ast.walk(tree_of(path))))
    ]
    assert not reads, report(reads)


def test_every_named_reader_of_the_environment_reads_it() -> None:
    readers = {
        path
        for path in ENVIRONMENT_READERS
        if any(map(reads_environment, ast.walk(tree_of(TREE / path))))
    }
    assert readers == set(ENVIRONMENT_READERS)


# --- deadlines ------------------------------------------------------------------------------------
def has_total(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="ClientTimeout") | ast.Attribute(attr="ClientTimeout")):
            totals = [word.value for word in node.keywords if word.arg == "total"]
            return not totals or ast.unparse(totals[0]) != "None"
    return False


def test_the_time_of_a_request_is_limited_by_asyncio() -> None:
    """aiohttp's `total` may swallow a cancellation (its issue 5979): then a task never ends."""
    places = [
        f"{name(path)} has a ClientTimeout with a total: use asyncio.timeout"
        for path in sources(*PACKAGES)
        if any(map(has_total, ast.walk(tree_of(path))))
    ]
    assert not places, report(places)
