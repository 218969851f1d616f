"""The tables that the code prints are on their pages."""

from pathlib import Path

import pytest

from cede.api import reasons
from cede.api.reasons import Reason
from tests.unit.docs.tables import MARKERS, reason_tables, with_tables


@pytest.mark.parametrize("page", MARKERS, ids=lambda page: page.name)
def test_the_tables_on_the_page_are_those_of_the_code(page: Path) -> None:
    assert with_tables(page) == page.read_text(), "run `.venv/bin/python -m tests.unit.docs.tables`"


def test_every_reason_is_in_the_tables() -> None:
    text = reason_tables()
    types = [type_ for type_ in vars(reasons).values() if isinstance(type_, type)]
    for type_ in types:
        if issubclass(type_, Reason) and type_ is not Reason:
            assert all(f"| `{reason}` | {reason.sentence} |" in text for reason in type_)
