"""The pages of both APIs, from the docstrings of what a script or a notebook uses."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import elastic_runtime
from cede.client import Client
from elastic_runtime.checkpointing.save_format import Checkpoint
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.data.streams import Streams
from elastic_runtime.training.step import Batch, Step

WIDTH = 100
SECTIONS = ("Args", "Attributes", "Returns", "Raises")
CLASSES: dict[str, tuple[str, type]] = {
    "session": ("Session", elastic_runtime.Session),
    "step": ("Step", Step),
    "batch": ("Batch", Batch),
    "loader": ("Loader", Loader),
    "streams": ("Streams", Streams),
    "sharded": ("Sharded", elastic_runtime.Sharded),
    "deterministic": ("Deterministic", elastic_runtime.Deterministic),
    "checkpoint": ("restore.Checkpoint", Checkpoint),
}
"""The name of an object in a script → its class, and how a script calls that."""
# Called by the session and not by scripts.
HIDDEN = {
    "Step": {"broken", "check_finished", "indices"},
    "Loader": {"restart"},
    "Streams": {"pack_states", "unpack_states", "state_dict", "load_state_dict"},
}
FUNCTIONS: tuple[tuple[str, Any], ...] = (
    ("device", elastic_runtime.device),
    ("restore.newest", elastic_runtime.restore.newest),
    ("restore.newest_intact", elastic_runtime.restore.newest_intact),
    ("restore.best", elastic_runtime.restore.best),
    ("restore.load", elastic_runtime.restore.load),
    ("restore.load_extra", elastic_runtime.restore.load_extra),
)


@dataclass
class Docstring:
    text: list[str] = field(default_factory=list)
    # Section → name → meaning. The name is empty in `Returns`.
    sections: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """Something that a script calls or reads."""

    heading: str
    value: Any
    # Of a class whose constructor scripts do not call: nothing is to be said of its arguments.
    is_created_for_scripts: bool = False


def members() -> Iterator[Member]:
    for name, (call, cls) in CLASSES.items():
        created = name in ("step", "batch", "loader", "streams", "checkpoint")
        yield Member(call, cls, created)
        # A strategy's methods are called by the session.
        if name in ("sharded", "deterministic", "checkpoint", "batch"):
            continue
        for attribute, value in vars(cls).items():
            is_public = not attribute.startswith("_") and attribute not in HIDDEN.get(call, ())
            if is_public and (inspect.isfunction(value) or isinstance(value, property)):
                yield Member(f"{name}.{attribute}", value)
    for call, function in FUNCTIONS:
        yield Member(call, function)


def client_members() -> Iterator[Member]:
    """What a notebook uses."""
    yield Member("Client", Client)
    for name, value in vars(Client).items():
        if not name.startswith("_"):
            yield Member(f"client.{name}", value)


def parse(docstring: str) -> Docstring:
    parsed = Docstring()
    section: dict[str, str] | None = None
    name = ""
    for line in inspect.cleandoc(docstring).splitlines():
        if line.removesuffix(":") in SECTIONS:
            section = parsed.sections.setdefault(line.removesuffix(":"), {})
            name = ""
        elif section is None:
            parsed.text.append(line)
        elif line.strip():
            entry = re.fullmatch(r"    (\w+): (.*)", line)
            if entry:
                name = entry[1]
            text = entry[2] if entry else line.strip()
            section[name] = f"{section.get(name, '')} {text}".strip()
    return parsed


@dataclass(frozen=True)
class Parameter:
    type: str
    default: str


def parameters(function: Any) -> dict[str, Parameter]:
    """As the source has them, without `self`."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    missing = [None] * (len(positional) - len(args.defaults))
    pairs = [
        *zip(positional, [*missing, *args.defaults], strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        *([(args.kwarg, None)] if args.kwarg else []),
    ]
    return {
        arg.arg: Parameter(
            ast.unparse(arg.annotation) if arg.annotation else "",
            ast.unparse(default) if default else "",
        )
        for arg, default in pairs
        if arg.arg != "self"
    }


def parameters_of(member: Member) -> dict[str, Parameter]:
    if isinstance(member.value, property) or member.is_created_for_scripts:
        return {}
    if inspect.isclass(member.value):
        has_constructor = "__init__" in vars(member.value)
        return parameters(member.value.__init__) if has_constructor else {}
    return parameters(member.value)


def signature(member: Member) -> str:
    if isinstance(member.value, property) or member.is_created_for_scripts:
        return member.heading
    names = [
        f"**{name}" if parameter.type == "Any" and not parameter.default else name
        for name, parameter in parameters_of(member).items()
    ]
    return f"{member.heading}({', '.join(names)})"


def page() -> str:
    return "\n\n".join("\n".join(_entry(member)) for member in members())


def client_page() -> str:
    return "\n\n".join("\n".join(_entry(member)) for member in client_members())


def _entry(member: Member) -> Iterator[str]:
    documented = parse(member.value.__doc__ or "")
    level = "##" if "." not in member.heading or "restore" in member.heading else "###"
    title = signature(member)
    # A heading must not be wider than a line: the table names the arguments.
    title = title if len(title) < WIDTH - 10 else f"{member.heading}(...)"
    yield f"{level} `{title}`\n"
    yield from _wrapped("\n".join(documented.text))
    for section, entries in documented.sections.items():
        yield ""
        if section == "Returns":
            yield from _wrapped(f"Returns {' '.join(entries.values())}")
        elif section == "Args":
            yield from _argument_rows(entries, parameters_of(member))
        else:
            yield f"| {'raises' if section == 'Raises' else 'attribute'} | |"
            yield "|---|---|"
            yield from (f"| `{name}` | {meaning} |" for name, meaning in entries.items())


def _argument_rows(entries: dict[str, str], known: dict[str, Parameter]) -> Iterator[str]:
    yield "| argument | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, meaning in entries.items():
        parameter = known.get(name, Parameter("", ""))
        kind = parameter.type.replace("|", "\\|")
        default = f"`{parameter.default}`" if parameter.default else ""
        yield f"| `{name}` | `{kind}` | {default} | {meaning} |"


def _wrapped(text: str) -> Iterator[str]:
    paragraphs = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    yield "\n\n".join(textwrap.fill(part, WIDTH, break_on_hyphens=False) for part in paragraphs)
