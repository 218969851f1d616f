"""What a Cession would have cost without one of its targets, in a sentence."""

from typing import Any

import pytest

from cede.api.alternative import Alternative
from cede.api.preference_reasons import PreferenceReason
from cede.causes.alternatives import alternative_to, alternatives_of
from tests.builders.causes import cession

UID = "job-gpt"
STOP = {"namespace": "research", "name": "bert", "fromSize": 8, "toSize": 0, "how": "Stop"}
SHRINK = STOP | {"name": "vit", "toSize": 4, "how": "Shrink"}
DRAIN = STOP | {"name": "serve-1", "how": "Drain"}


def sentence(reason: PreferenceReason, **facts: Any) -> str:
    record = cession()
    record.spec.alternatives = [
        Alternative.model_validate({"spared": UID, "reason": reason, **facts})
    ]
    [only] = alternatives_of(record)
    assert alternative_to(record, UID) == only
    return only


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(
            {"jobs": [STOP], "costSeconds": "11520", "plannedSeconds": "0"},
            "stopping research/bert would have cost 3.2 accelerator-hours:",
            id="a stop",
        ),
        pytest.param(
            {"jobs": [STOP], "costSeconds": "1840", "plannedSeconds": "90"},
            "cost 30.7 accelerator-minutes, not 90 accelerator-seconds:",
            id="against what the plan costs",
        ),
        pytest.param(
            {"jobs": [SHRINK], "costSeconds": "0", "plannedSeconds": "0"},
            "shrinking research/vit from 8 to 4 would have cost nothing as well:",
            id="no more than the plan",
        ),
        pytest.param(
            {"jobs": [SHRINK, DRAIN], "costSeconds": "0", "plannedSeconds": "90"},
            "shrinking research/vit from 8 to 4 and draining research/serve-1 would have cost "
            "nothing, not 90 accelerator-seconds:",
            id="less than the plan",
        ),
        pytest.param(
            {"jobs": [STOP, SHRINK, DRAIN], "moreJobs": 2, "costSeconds": "60"},
            "draining research/serve-1 and 2 more jobs would have cost 60 accelerator-seconds",
            id="more than three",
        ),
        pytest.param(
            {"jobs": [STOP]},
            "stopping research/bert would have been enough:",
            id="a claim for no accelerators",
        ),
    ],
)
def test_it_says_who_would_have_given_and_at_what_cost(facts: dict[str, Any], words: str) -> None:
    text = sentence(PreferenceReason.LOWEST_CLASS, **facts)
    assert text.startswith("Instead of research/gpt, ")
    assert words in text
    assert text.endswith(": in a team, the lowest class gives first.")


def test_it_says_that_there_was_no_other_way() -> None:
    assert sentence(PreferenceReason.NO_OTHER_JOBS) == (
        "Without research/gpt: the other jobs could not have released enough quota, or not on "
        "nodes with room."
    )


def test_a_cession_without_a_record_of_it_says_nothing() -> None:
    assert alternatives_of(cession()) == []
    assert alternative_to(cession(), UID) == ""


def test_of_a_job_that_is_no_target_nothing_is_said() -> None:
    record = cession()
    record.spec.alternatives = [
        Alternative(spared="job-gone", reason=PreferenceReason.NO_OTHER_JOBS)
    ]
    assert alternatives_of(record) == []
