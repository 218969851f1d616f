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
        opening = f"<!-- {marker} -->\n"
        start = page.index(opening) + len(opening)
        end = page.index("<!-- end -->", start)
        page = f"{page[:start]}\n{as_markdown(table)}\n\n{page[end:]}"
    return page


def as_markdown(table: str) -> str:
    """A Markdown table as it is; any other text as a block."""
    return table.strip() if table.startswith("|") else f"```text\n{table.rstrip()}\n```"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
