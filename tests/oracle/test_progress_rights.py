"""A scheduler that somebody took over writes no ConfigMap that others read."""

from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.requests import SCHEDULER, obj
from tests.harness.admission import Judge

pytestmark = pytest.mark.slow


def test_the_scheduler_notes_the_progress_of_jobs_and_nothing_else_in_a_config_map(
    judge: Judge,
) -> None:
    def config_map(name: str = names.PROGRESS, **fields: Any) -> Json:
        return obj("v1", "ConfigMap", name, "vision", **fields)

    old, new = config_map(data={"jobs": "{}", "a": "b"}), config_map(data={"jobs": "{1}"})
    assert judge(new, SCHEDULER) == []
    assert judge(config_map(data={"jobs": "{1}", "a": "b"}), SCHEDULER, old=old) == []
    assert judge(new, SCHEDULER, labels={}), "not in a namespace of no team"
    assert judge(config_map("other", data={"jobs": ""}), SCHEDULER)
    for changed in (
        config_map(data={"jobs": "", "a": "c"}),
        config_map(data={"jobs": "", "c": "d"}),
        config_map(data={"jobs": ""}, binaryData={"a": "YQ=="}),
    ):
        assert judge(changed, SCHEDULER, old=old)
    owned = config_map(data={"jobs": ""})
    owned["metadata"]["finalizers"] = ["x/y"]
    assert judge(owned, SCHEDULER, old=old)
    assert judge(config_map(data={"c": "d"})) == [], "others are not looked at"
