"""What is sent to the API server: objects with their type, selectors of a list."""

from cede.api.objects import Json, Kind


def with_type(kind: Kind, body: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind} | body


def selectors(labels: str, fields: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in query.items() if value}
