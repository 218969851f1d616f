"""Every reason is in a file of cede/api whose name ends so, with a sentence."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cede.api import preference_reasons, reasons, wait_reasons
from cede.api.reasons import Reason
from tests.paths import TREE

REASON_TYPES = [
    value
    for value in (
        *vars(reasons).values(),
        preference_reasons.PreferenceReason,
        wait_reasons.WaitReason,
    )
    if isinstance(value, type) and issubclass(value, Reason) and value is not Reason
]
ALL_REASONS = [reason for type_ in REASON_TYPES for reason in type_]
COMPONENTS = ("cede", "quota_controller", "scheduler", "webhook")
OWN_FILES = [
    TREE / "cede" / "api" / name
    for name in ("reasons.py", "preference_reasons.py", "wait_reasons.py", "names.py")
]
MODULES = [
    path
    for component in COMPONENTS
    for path in sorted((TREE / component).rglob("*.py"))
    # names.py has the condition types of Kueue, of which some are reasons of ours too
    if path not in OWN_FILES
]
WORDS_OF_KUBERNETES = {"Failed", "Pending", "Invalid", "Unreadable", "Ready"}
"""Conditions and phases of pods, and reasons of API errors: the code may have them as text."""
CAMEL_CASE = re.compile(r"([A-Z][a-z]+)+")


@pytest.mark.parametrize(
    "reason", ALL_REASONS, ids=lambda reason: f"{type(reason).__name__}.{reason}"
)
def test_a_reason_is_camel_case_and_has_a_sentence(reason: Reason) -> None:
    """The Kubernetes API conventions ask for CamelCase."""
    assert CAMEL_CASE.fullmatch(reason.value)
    assert reason.name == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", reason.value).upper()
    assert re.fullmatch(r"[A-Za-z].+\.", reason.sentence)


@pytest.mark.parametrize("type_", REASON_TYPES, ids=lambda type_: type_.__name__)
def test_no_reason_is_in_a_type_twice(type_: type[Reason]) -> None:
    assert len(type_.__members__) == len(list(type_)), "an alias has the value of another member"


def reason_literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Text in the code that is a reason by its value, or is given as `reason`."""
    known = {reason.value for reason in ALL_REASONS}
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.keyword) and node.arg == "reason":
            values = [node.value]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            values = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "reason"]
        elif isinstance(node, ast.Constant) and node.value in known:
            values = [node]
        for value in values:
            if not isinstance(value, ast.Constant) or value.value in WORDS_OF_KUBERNETES:
                continue
            if CAMEL_CASE.fullmatch(str(value.value)):
                yield value


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(TREE).as_posix())
def test_components_have_no_reason_as_literal_text(path: Path) -> None:
    literals = [
        f"line {literal.lineno}: {literal.value!r}"
        for literal in reason_literals(ast.parse(path.read_text()))
    ]
    assert not literals, "use the member of cede/api/reasons.py or wait_reasons.py"
