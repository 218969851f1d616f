"""What scripts and notebooks use says what it takes, returns and raises."""

import ast
import inspect
import textwrap

import pytest

import elastic_runtime
from tests.unit.docs.api import Member, client_members, members, page, parameters_of, parse

MEMBERS = [*members(), *client_members()]


def test_every_public_name_is_on_the_page() -> None:
    text = page()
    names = [name for name in elastic_runtime.__all__ if name != "__version__"]
    assert not [name for name in names if f"## `{name}" not in text]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.heading)
def test_every_argument_is_described_and_no_other(member: Member) -> None:
    described = parse(member.value.__doc__ or "").sections.get("Args", {})
    assert list(described) == list(parameters_of(member))


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.heading)
def test_what_a_function_returns_is_described(member: Member) -> None:
    documented = parse(member.value.__doc__ or "")
    assert "".join(documented.text).strip(), "no docstring"
    if inspect.isfunction(member.value):
        node = ast.parse(textwrap.dedent(inspect.getsource(member.value))).body[0]
        assert isinstance(node, ast.FunctionDef)
        returns_nothing = node.returns is None or ast.unparse(node.returns) == "None"
        assert returns_nothing != ("Returns" in documented.sections)


def test_sections_are_read_with_their_continuation_lines() -> None:
    parsed = parse(
        """First.

        Args:
            loss: (1,): the mean
                of a micro-batch.
            weight: its weight.

        Returns:
            the sum.
        """
    )
    assert parsed.text[0] == "First."
    assert parsed.sections == {
        "Args": {"loss": "(1,): the mean of a micro-batch.", "weight": "its weight."},
        "Returns": {"": "the sum."},
    }
