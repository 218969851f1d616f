"""The manifests of deploy/components, by component."""

from typing import Any

import yaml

from cede.api.objects import Json
from tests.paths import TREE


def manifests(component: str, kind: str) -> list[Json]:
    """All objects of this kind."""
    folder = TREE / "deploy/components" / component
    texts = [path.read_text() for path in folder.glob("*.yaml")]
    loaded: list[Any] = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in loaded if document["kind"] == kind]
