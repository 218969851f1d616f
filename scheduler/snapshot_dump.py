"""The scheduler's input as JSON and back, so that any decision can be explained on another machine:
a plan depends on nothing else."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_args

from pydantic import BaseModel

from cede.api.objects import Json
from cede.api.policy import PolicySpec
from cede.kube.decoding import decoder
from elastic_runtime import contract
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import RawObjects

# every other field is a list of Kubernetes objects
STATUSES = "statuses"
OBSERVATIONS = "observations"
BELIEVED = "believed"
OVERDUE = "overdue"
MAPS = (STATUSES, OBSERVATIONS)
LED_SINCE = "led_since"
NOT_OBJECTS = (*MAPS, BELIEVED, LED_SINCE, OVERDUE)


def write(objects: RawObjects, policy: PolicySpec, now: float) -> str:
    names = [field.name for field in fields(RawObjects) if field.name not in NOT_OBJECTS]
    content: Json = {name: list(map(_to_json, getattr(objects, name))) for name in names}
    content |= {name: _to_map(getattr(objects, name)) for name in MAPS}
    content[BELIEVED] = sorted(objects.believed)
    content[OVERDUE] = sorted(objects.overdue)
    content[LED_SINCE] = objects.led_since
    return json.dumps({"now": now, "policy": policy.model_dump(mode="json"), **content})


def read(text: str) -> tuple[RawObjects, PolicySpec, float]:
    """What was written: objects, policy, and Unix seconds. Raises ValueError if the text is not a
    dump of this version."""
    try:
        raw: Json = json.loads(text)
        statuses = {
            uid: contract.decode_status(json.dumps(status).encode())
            for uid, status in raw[STATUSES].items()
        }
        kinds: Json = {}
        for field in fields(RawObjects):
            if field.name not in NOT_OBJECTS:
                decode = decoder(get_args(field.type)[0])
                kinds[field.name] = [decode(json.dumps(item).encode()) for item in raw[field.name]]
        observations = {uid: Observed(**value) for uid, value in raw[OBSERVATIONS].items()}
        believed = frozenset((queue, (key[0], key[1])) for queue, key in raw[BELIEVED])
        objects = RawObjects(
            statuses=statuses,
            observations=observations,
            believed=believed,
            overdue=frozenset(raw[OVERDUE]),
            led_since=float(raw[LED_SINCE]),
            **kinds,
        )
        return objects, PolicySpec.model_validate(raw["policy"]), float(raw["now"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"not a dump of this version of the scheduler ({error!r}): write a new one with "
            f"`python -m scheduler --dump FILE`"
        ) from error


def _to_map(values: Mapping[str, Any]) -> Json:
    return {uid: asdict(value) for uid, value in values.items()}


def _to_json(item: Any) -> Json:
    return item.model_dump(mode="json") if isinstance(item, BaseModel) else asdict(item)
