"""Asks the API server's own packages what the admission policies and the CRDs of deploy/ refuse."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cede.api import names
from cede.api.objects import DEPLOYMENTS, Json, Kind
from deploy.local.binaries import run_go
from tests.builders.manifests import objects_of_kind
from tests.paths import TREE

SOURCES = TREE / "tests" / "oracle"
TEAM = {names.TEAM: "vision"}


def policies() -> list[Json]:
    """All ValidatingAdmissionPolicies of deploy/."""
    return objects_of_kind("ValidatingAdmissionPolicy")


def build(source: str, folder: Path) -> Path:
    """The program `source` of tests/oracle, built in the module of the local cluster, which names
    the version of Kubernetes."""
    program = folder / source
    main = SOURCES / source / "main.go"
    run_go("", "build", "-ldflags", "-s -w", "-o", str(program), str(main))
    return program


def ask(program: Path, question: Json) -> list[list[str]]:
    """The messages by which each request is refused."""
    run = subprocess.run(
        [program], input=json.dumps(question), capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr
    return [list(messages) for messages in json.loads(run.stdout)]


class CrdJudge:
    """Evaluates the CEL rules of a CRD as an API server does."""

    def __init__(self, folder: Path) -> None:
        self._program = build("resources", folder)

    def __call__(self, crd: Json, writes: Sequence[tuple[Json | None, Json]]) -> list[list[str]]:
        """The messages by which each write, (old, new), is refused. A creation has no old one."""
        requests = [{"oldObject": old, "object": new} for old, new in writes]
        return ask(self._program, {"definition": crd, "writes": requests})


class Judge:
    """Evaluates the policies as an API server does."""

    def __init__(self, folder: Path) -> None:
        self._program = build("admission", folder)

    def __call__(
        self,
        obj: Json,
        user: str = "ada",
        *,
        old: Json | None = None,
        annotations: Json | None = None,
        labels: Json | None = None,
        params: Sequence[Json] = (),
        scaled: Kind = DEPLOYMENTS,
        deletion: Json | None = None,
    ) -> list[str]:
        """The messages by which a request is refused. With the options of a `deletion`, `obj` is
        deleted. `annotations` and `labels` are those of its
        namespace, by default of team vision. A Scale is one of the kind `scaled`. `params` are what
        bindings select for policies with parameters."""
        namespace: Json = {"metadata": {"name": "vision"}}
        namespace["metadata"]["labels"] = TEAM if labels is None else labels
        namespace["metadata"]["annotations"] = annotations or {}
        is_scale = obj["kind"] == "Scale"
        kind = str(obj["kind"]).lower()
        plural = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
        operation = "UPDATE" if old else "CREATE"
        if deletion is not None:
            operation, old = "DELETE", obj
        request: Json = {
            "operation": operation,
            "options": deletion,
            "resource": scaled.plural if is_scale else plural,
            "subresource": "scale" if is_scale else "",
            "scaledGroup": scaled.group if is_scale else "",
            "params": list(params),
            "user": user,
            "groups": [],
            "object": obj if deletion is None else None,
            "oldObject": old,
            "namespace": namespace,
        }
        [messages] = self._run([request])
        return messages

    def updates(self, pairs: Sequence[tuple[Json, Json]]) -> list[list[str]]:
        """The messages by which each update of a Job of team vision, (old, new), is refused."""
        shared: Json = {"operation": "UPDATE", "resource": "jobs", "user": "ada", "groups": []}
        shared["namespace"] = {"metadata": {"name": "vision", "labels": TEAM, "annotations": {}}}
        return self._run([shared | {"oldObject": old, "object": new} for old, new in pairs])

    def _run(self, requests: list[Json]) -> list[list[str]]:
        return ask(self._program, {"policies": policies(), "requests": requests})
