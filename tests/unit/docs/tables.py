"""Writes tables that the code prints into pages: `python -m tests.unit.docs.tables`."""

from collections.abc import Iterator
from pathlib import Path

from cede.api import reasons
from cede.api.preference_reasons import PreferenceReason
from cede.api.reasons import Reason
from cede.api.wait_reasons import WaitReason
from elastic_runtime.integrations.transformers import arguments
from tests.matrix.table import matrix_table
from tests.unit.docs.pages import DOCS

MARKERS = {
    DOCS / "architecture.md": ("phase_table", "rule_table", "coordinator_table"),
    DOCS / "reasons.md": ("reason_tables",),
    DOCS / "install.md": ("matrix_table",),
    DOCS / "metrics.md": ("metric_table", "label_table"),
    DOCS / "api.md": ("api",),
    DOCS / "command.md": ("commands",),
    DOCS / "notebooks.md": ("client",),
    DOCS / "transformers.md": ("refused_arguments",),
}
"""Page → the markers in it."""


def table(marker: str) -> str:
    """The table that the code prints for this marker."""
    from elastic_runtime.agent import membership, succession
    from scheduler.cession.cession_lifecycle import phase_table
    from tests.unit.docs import api, command, metric_tables

    tables = {
        "phase_table": phase_table,
        "rule_table": membership.rule_table,
        "coordinator_table": succession.rule_table,
        "reason_tables": reason_tables,
        "matrix_table": matrix_table,
        "metric_table": metric_tables.metric_table,
        "label_table": metric_tables.label_table,
        "api": api.page,
        "commands": command.page,
        "client": api.client_page,
        "refused_arguments": refused_arguments,
    }
    return tables[marker]()


def refused_arguments() -> str:
    """Of TrainingArguments, with what to do in their place."""
    rows = [
        f"| `{name}` other than `{accepted[0]!r}` | {cure} |"
        for name, (accepted, cure) in arguments.REFUSED.items()
    ]
    return "\n".join(["| argument | cure |", "|---|---|", *rows])


def reason_tables() -> str:
    """For each type of reason: where it is shown, and a table of its reasons and sentences."""
    types = (
        reasons.AllocationReason,
        reasons.AdmitsReason,
        reasons.BudgetReason,
        reasons.AdviceReason,
        reasons.PolicyReason,
        reasons.WriteReason,
        reasons.LeaderReason,
        reasons.KueueReason,
        reasons.KubernetesReason,
        reasons.EventReason,
        reasons.CessionReason,
        PreferenceReason,
        reasons.CessionPhase,
        reasons.SchedulerEvent,
        reasons.SaveState,
        WaitReason,
    )
    return "\n\n".join("\n".join(_reason_table(type_)) for type_ in types)


def _reason_table(type_: type[Reason]) -> Iterator[str]:
    yield " ".join(str(type_.__doc__).split()) + "\n"
    yield "| reason | meaning |"
    yield "|---|---|"
    for reason in type_:
        yield f"| `{reason}` | {reason.sentence} |"


def with_tables(page: Path) -> str:
    """The text of the page with the present tables between its markers."""
    text = page.read_text()
    for marker in MARKERS[page]:
        opening = f"<!-- {marker} -->\n"
        start = text.index(opening) + len(opening)
        end = text.index("<!-- end -->", start)
        text = f"{text[:start]}\n{as_markdown(table(marker))}\n\n{text[end:]}"
    return text


def as_markdown(text: str) -> str:
    """A text with a Markdown table as it is; any other text as a block."""
    has_table = any(line.startswith("|") for line in text.splitlines())
    return text.strip() if has_table else f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    for page in MARKERS:
        page.write_text(with_tables(page))
