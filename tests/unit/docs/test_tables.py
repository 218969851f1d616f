"""The state machines in docs/architecture.md are those of the code."""

from tests.unit.docs.tables import PAGE, with_tables


def test_the_state_machines_on_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "run `.venv/bin/python -m tests.unit.docs.tables`"
