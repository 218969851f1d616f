"""Writes the state machines into docs/architecture.md: `python -m tests.unit.docs.tables`."""

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
        start = page.index(f"<!-- {marker} -->\n```text\n")
        end = page.index("```\n<!-- end -->", start)
        page = f"{page[:start]}<!-- {marker} -->\n```text\n{table.rstrip()}\n{page[end:]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
