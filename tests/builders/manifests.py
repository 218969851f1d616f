"""The objects of the manifests in deploy/."""

from functools import cache

import yaml

from cede.api.objects import Json
from tests.paths import TREE


@cache
def all_objects() -> list[Json]:
    files = sorted((TREE / "deploy").rglob("*.yaml"))
    loaded = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return list(filter(None, loaded))


def objects_of_kind(kind: str) -> list[Json]:
    return [made for made in all_objects() if made.get("kind") == kind]
