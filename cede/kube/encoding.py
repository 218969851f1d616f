"""What is sent to the API server: objects with their type, patches, selectors of a list."""

from collections.abc import Sequence

from cede.api.objects import Json, Kind

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def with_type(kind: Kind, body: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind} | body


def patch_type(body: Json | Sequence[Json]) -> str:
    """A merge patch is a dict, a JSON patch a list."""
    return MERGE_PATCH if isinstance(body, dict) else JSON_PATCH


def selectors(labels: str, fields: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in query.items() if value}
