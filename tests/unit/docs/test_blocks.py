"""Every code block is checked: YAML by models, schemas and the webhook, shell by the parsers.

Python blocks are run by tests/processes/test_guide.py, and those of the pages about frameworks by
tests/frameworks."""

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import typer.core
import typer.main
import yaml
from pydantic import BaseModel

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.objects import Json
from cede.api.policy import ClusterPolicy
from cede.commands.app import app
from elastic_runtime.arguments import WORDS, make_parser, make_request_parser
from ledger import __main__ as ledger
from scheduler.__main__ import read_flags
from scheduler.simulate import cli as simulation
from tests.builders.jobs import TEAM
from tests.paths import TREE
from tests.unit.docs.pages import Block, after, before, blocks
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints
from whatif.__main__ import read_arguments

# What changes in a script: tests/frameworks runs it before and after.
DIFF_PAGES = {"docs/torchrun.md"}
LANGUAGES = {"python", "sh", "yaml", "text", "mermaid", "diff"}
PYTHON_PAGES = {"README.md", "docs/porting.md", "docs/runtime-reference.md"}
# By tests/unit/cede_cli/test_client.py, against an API server in memory.
CLIENT_PAGES = {"docs/notebooks.md"}
# They need packages that are not in the environment of the other tests.
FRAMEWORK_PAGES = {"docs/transformers.md"}


def test_every_block_has_a_language_that_is_checked() -> None:
    others = [
        f"{block}: {block.language!r}" for block in blocks() if block.language not in LANGUAGES
    ]
    assert not others


def test_python_is_on_the_pages_that_are_run() -> None:
    """By tests/processes/test_guide.py and the tests named above."""
    pages = PYTHON_PAGES | FRAMEWORK_PAGES | CLIENT_PAGES
    assert {block.page for block in blocks("python")} == pages
    for block in blocks("python"):
        ast.parse(block.text, str(block))


def test_a_diff_is_on_a_page_that_is_run_and_is_python_before_and_after() -> None:
    assert {block.page for block in blocks("diff")} == DIFF_PAGES
    for block in blocks("diff"):
        ast.parse(before(block), str(block))
        ast.parse(after(block), str(block))


@pytest.mark.parametrize("block", blocks("mermaid"), ids=str)
def test_a_diagram_is_of_a_known_kind(block: Block) -> None:
    """A semicolon would end a statement of Mermaid."""
    assert ";" not in block.text
    assert block.text.split()[0] in {"sequenceDiagram", "flowchart", "stateDiagram-v2"}


# --- YAML -----------------------------------------------------------------------------------------
MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "ClusterPolicy": (ClusterPolicy, "clusterpolicies"),
    "ComputeAllocation": (ComputeAllocation, "computeallocations"),
    "Cession": (Cession, "cessions"),
}
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
"""Kubernetes gives it to the pods of a Job."""
KUEUE_SETTINGS = TREE / "deploy" / "local" / "kueue" / "settings.yaml"


@cache
def schema_of(plural: str) -> Json:
    """The OpenAPI schema of a CRD."""
    crd = yaml.safe_load((TREE / "deploy" / "crds" / f"{plural}.yaml").read_text())
    schema: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def unknown_fields(value: object, schema: Json, path: str = "") -> Iterator[str]:
    """The fields that the schema does not have; an API server would drop them."""
    if isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            if key not in schema["properties"]:
                yield f"{path}.{key}"
            else:
                yield from unknown_fields(inner, schema["properties"][key], f"{path}.{key}")
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from unknown_fields(item, schema["items"], f"{path}[{number}]")


def check_object(document: Json) -> None:
    kind = document["kind"]
    if kind in MODELS:
        model, plural = MODELS[kind]
        model.model_validate(document)
        spec = schema_of(plural)["properties"]["spec"]
        assert list(unknown_fields(document["spec"], spec, "spec")) == []
    elif kind == "Configuration":
        check_kueue_settings(document)
    elif kind == "NetworkPolicy":
        check_network_policy(document)
    else:
        check_job(document)


def check_job(document: Json) -> None:
    """The webhook accepts it and, asked again, changes nothing."""
    request = AdmissionRequest(document, user="alice", team=TEAM)
    assert complaints(request) == []
    stored = apply_defaults(request)
    assert stored["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    assert apply_defaults(AdmissionRequest(stored, user="alice", team=TEAM)) == stored


def check_network_policy(document: Json) -> None:
    """It opens one port of the pods of one job."""
    spec = document["spec"]
    assert set(spec) == {"podSelector", "ingress"}
    assert set(spec["podSelector"]["matchLabels"]) == {JOB_NAME_LABEL}
    [opened] = spec["ingress"]
    assert opened["from"]
    assert len(opened["ports"]) == 1


def check_kueue_settings(document: Json) -> None:
    """It is a part of the settings that the local cluster has."""
    config_map = yaml.safe_load(KUEUE_SETTINGS.read_text())
    tested = yaml.safe_load(config_map["data"]["controller_manager_config.yaml"])
    frameworks = document["integrations"].pop("frameworks")
    assert set(frameworks) <= set(tested["integrations"].pop("frameworks"))
    assert is_part(document, tested)


def is_part(part: object, complete: object) -> bool:
    if isinstance(part, dict) and isinstance(complete, dict):
        return all(key in complete and is_part(part[key], complete[key]) for key in part)
    return part == complete


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_what_the_cluster_accepts(block: Block) -> None:
    for document in yaml.safe_load_all(block.text):
        check_object(document)


@pytest.mark.parametrize("file", sorted((TREE / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_an_example_is_what_the_cluster_accepts(file: Any) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        check_object(document)


def test_a_field_that_no_schema_has_is_noticed() -> None:
    spec = schema_of("clusterpolicies")["properties"]["spec"]
    assert list(unknown_fields({"mode": "Observe", "mod": 1}, spec, "spec")) == ["spec.mod"]


# --- shell ----------------------------------------------------------------------------------------
ADMINS_FILES = {"policy.yaml"}
"""They are not in this repository."""
RESOURCES = {"ca", "ces", "cq", "clusterpolicy", "job", "jobs", "workloads", "pods"}


def commands() -> list[tuple[Block, str]]:
    """The lines of all shell blocks, without comments; one that goes on is one line."""
    return [
        (block, line)
        for block in blocks("sh")
        for text in block.text.replace("\\\n", "").splitlines()
        if (line := re.sub(r"\s+#.*$", "", text).strip())
    ]


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (TREE / "Makefile").read_text(), re.MULTILINE)
    assert [word for word in words[1:] if "=" not in word and word not in targets] == []


def check_python(words: list[str]) -> None:
    if words[1].endswith(".py"):
        assert (TREE / words[1]).exists()
        return
    assert words[1] == "-m"
    if words[2] == "elastic_runtime":
        parsed = make_parser().parse_args(words[3:])
        if parsed.script[0] in WORDS:
            make_request_parser().parse_args(parsed.script)
        else:
            assert parsed.local or parsed.signal or parsed.restart
    elif words[2:4] == ["scheduler", "simulate"]:
        simulation.parser().parse_args(words[4:])
    elif words[2] == "ledger":
        ledger.parser().parse_args(words[3:])
    elif words[2].startswith("tests.bench."):
        assert (TREE / f"{words[2].replace('.', '/')}.py").exists()
    elif words[2] == "whatif":
        read_arguments(words[3:])
    else:
        assert words[2] == "scheduler"
        read_flags(words[3:])


def forwardable_ports() -> set[tuple[str, str]]:
    """(service/NAME, port) of the Services of all components."""
    files = (TREE / "deploy/components").glob("*/service.yaml")
    services = [yaml.safe_load(file.read_text()) for file in files]
    return {
        (f"service/{service['metadata']['name']}", str(port["port"]))
        for service in services
        for port in service["spec"]["ports"]
    }


def check_kubectl(words: list[str]) -> None:
    verb = words[1]
    if verb == "port-forward":
        assert tuple(words[-2:]) in forwardable_ports()
        return
    reading = {"describe", "exec", "explain", "get", "wait"}
    assert verb in {"annotate", "apply", "delete", "patch", *reading}
    if verb == "exec":
        command = words[words.index("--") + 1 :]
        check_python(command[: command.index(">")] if ">" in command else command)
        return
    files = [words[i + 1] for i, word in enumerate(words) if word == "-f"]
    if "-k" in words:
        assert (TREE / words[words.index("-k") + 1] / "kustomization.yaml").exists()
    elif files:
        assert not [
            file for file in files if file not in ADMINS_FILES and not (TREE / file).exists()
        ]
    elif verb == "annotate":
        assert words[-1].partition("=")[0] in vars(names).values()
    elif verb == "explain":
        assert words[2].split(".")[0] in RESOURCES
    else:
        assert set(words[2].partition("/")[0].split(",")) <= RESOURCES


def check_docker(words: list[str]) -> None:
    if words[1] == "build":
        dockerfile = (TREE / words[words.index("-f") + 1]).read_text()
        assert f" AS {words[words.index('--target') + 1]}\n" in dockerfile
    else:
        assert words[1] in {"pull", "push"}


def check_export(words: list[str]) -> None:
    assert all("=" in word for word in words[1:])


def check_cede(words: list[str]) -> None:
    """It is a command line that the command would run. The command is its first word."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    with group.make_context("cede", ["status"]) as context:
        command = group.commands[words[1]]
        inner = command.make_context(words[1], words[2:], parent=context)
        if isinstance(command, typer.core.TyperGroup):
            words = words[1:]
            command.commands[words[1]].make_context(words[1], words[2:], parent=inner).close()
        inner.close()


CHECKS: dict[str, Callable[[list[str]], object]] = {
    "make": check_make,
    "cede": check_cede,
    "python": check_python,
    "kubectl": check_kubectl,
    "docker": check_docker,
    "export": check_export,
    "source": lambda words: words,
}


@pytest.mark.parametrize(("block", "line"), commands(), ids=str)
def test_a_command_exists(block: Block, line: str) -> None:
    line = re.sub(r"\$\([^)]*\)", "VALUE", line)
    words = shlex.split(line)
    assert words[0] in CHECKS, f"{block}: {line}"
    CHECKS[words[0]](words)
