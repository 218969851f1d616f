"""Writes the state machines into docs/architecture.md: `python -m tests.unit.docs.tables`."""

import re

from tests.unit.docs.pages import DOCS

PAGE = DOCS / "architecture.md"


def tables() -> dict[str, str]:
    """Marker → the table that the code prints."""
    from elastic_runtime.agent.membership import rule_table
    from scheduler.cession_lifecycle import phase_table

    return {"phase_table": phase_table(), "rule_table": rule_table()}


def with_tables(page: str) -> str:
    """The page with the present tables between its markers."""
    for marker, table in tables().items():
        pattern = rf"(<!-- {marker} -->\n```text\n).*?(```\n<!-- end -->)"
        body = table.rstrip() + "\n"
        page, count = re.subn(pattern, lambda m, t=body: m[1] + t + m[2], page, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"docs/architecture.md has no markers for {marker}")
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
