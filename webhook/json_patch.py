"""PURE. JSON patches (RFC 6902)."""

from cede.api.objects import Json


def create_patch(before: object, after: object, path: str = "") -> list[Json]:
    """The operations that turn `before` into `after`, in the order of their paths."""
    if isinstance(before, dict) and isinstance(after, dict):
        return _patch_dict(before, after, path)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        operations: list[Json] = []
        for i, (old_item, new_item) in enumerate(zip(before, after, strict=True)):
            operations += create_patch(old_item, new_item, f"{path}/{i}")
        return operations
    # In Python 1 == True, in JSON it is not
    if before == after and type(before) is type(after):
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _patch_dict(before: Json, after: Json, path: str) -> list[Json]:
    operations: list[Json] = []
    for name in before.keys() | after.keys():
        inner = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
        if name not in after:
            operations.append({"op": "remove", "path": inner})
        elif name not in before:
            operations.append({"op": "add", "path": inner, "value": after[name]})
        else:
            operations += create_patch(before[name], after[name], inner)
    return sorted(operations, key=lambda operation: str(operation["path"]))
