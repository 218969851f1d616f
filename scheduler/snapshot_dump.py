"""A picture of the cluster as JSON and back: what the scheduler saw is all it decides by, so any
decision can be explained anywhere."""

import json
from dataclasses import asdict, fields
from typing import Any, get_args

from pydantic import BaseModel

from cede.api.objects import Json
from cede.api.policy import PolicySpec
from cede.kube.decoding import decoder
from elastic_runtime import contract
from scheduler.snapshot import Objects


def write(seen: Objects, policy: PolicySpec, now: float) -> str:
    kinds = {
        f.name: [_json(item) for item in getattr(seen, f.name)]
        for f in fields(Objects)
        if f.name != "statuses"
    }
    statuses = {uid: asdict(status) for uid, status in seen.statuses.items()}
    return json.dumps(
        {"now": now, "policy": policy.model_dump(mode="json"), "statuses": statuses, **kinds}
    )


def read(text: str) -> tuple[Objects, PolicySpec, float]:
    """Raises ValueError when it is no dump of this version."""
    try:
        raw: Json = json.loads(text)
        statuses = {
            uid: contract.decode_status(json.dumps(status).encode())
            for uid, status in raw["statuses"].items()
        }
        kinds: Json = {}
        for field in fields(Objects):
            if field.name != "statuses":
                decode = decoder(get_args(field.type)[0])
                kinds[field.name] = [decode(json.dumps(item).encode()) for item in raw[field.name]]
        return (
            Objects(statuses=statuses, **kinds),
            PolicySpec.model_validate(raw["policy"]),
            float(raw["now"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no dump of the scheduler: {error!r}") from error


def _json(item: Any) -> Json:
    return item.model_dump(mode="json") if isinstance(item, BaseModel) else asdict(item)
