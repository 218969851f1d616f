"""Which sizes an elastic Job may get while the webhook does not answer."""

from random import Random

import pytest

from cede.api import names, sizes
from cede.api.objects import Json
from tests.builders.jobs import elastic_job, running_job
from tests.builders.requests import SCHEDULER
from tests.harness.admission import Judge
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints

pytestmark = pytest.mark.slow
# what str.strip() removes, and what only looks like it
SPACES = [chr(i) for i in range(0x3001) if chr(i).isspace()]
NO_SPACES = ["\x00", "\u180e", "\u200b", "\u2060"]


def sized(text: str) -> Json:
    job = running_job(elastic_job(), 8)
    job["metadata"]["annotations"][names.SIZES] = text
    return job


def without(job: Json, name: str) -> Json:
    """The job without this annotation."""
    annotations = {k: v for k, v in job["metadata"]["annotations"].items() if k != name}
    return job | {"metadata": job["metadata"] | {"annotations": annotations}}


# --- what only the webhook can complete -----------------------------------------------------------
def test_a_new_job_that_the_webhook_did_not_complete_is_refused(judge: Judge) -> None:
    """Its template cannot change, so it could never be resized."""
    [message] = judge(elastic_job())
    assert "a job cannot be made elastic later" in message
    assert judge(apply_defaults(AdmissionRequest(elastic_job()))) == []
    assert judge(without(elastic_job(), names.SIZES)) == [], "the cure"
    assert judge(elastic_job(), labels={}) == [], "in a namespace of no team"


@pytest.mark.parametrize("field", ["parallelism", "completions"])
def test_only_the_scheduler_resizes(judge: Judge, field: str) -> None:
    """The webhook notes a size of a user as the desired one."""
    old, new = sized("2-8"), sized("2-8")
    new["spec"][field] = 4
    [message] = judge(new, old=old)
    assert "the desired size of this job cannot be changed" in message
    new["spec"] |= {"parallelism": 4, "completions": 4}
    assert judge(new, SCHEDULER, old=old) == []


@pytest.mark.parametrize("name", [names.SIZES, names.DESIRED_SIZE])
def test_a_job_stays_elastic(judge: Judge, name: str) -> None:
    old = sized("2-8")
    assert name in old["metadata"]["annotations"]
    [message] = judge(without(old, name), old=old)
    assert "this job could no longer be resized" in message


# --- the smallest size ----------------------------------------------------------------------------
def smallest(text: str) -> int | None:
    try:
        return sizes.parse(text)[0]
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param("2-8", "8", True, id="no smaller one: others would give in its place"),
        pytest.param("2-8", "4-8", True, id="another smallest one"),
        pytest.param("2-8", "1-8", True, id="a smaller one"),
        pytest.param("2-8", "x", True, id="none that can be read"),
        pytest.param("2-8", "", True, id="none"),
        pytest.param("2-8\n", "8", True, id="no smaller one than that of a block of YAML"),
        pytest.param("2-8", "2-16", False, id="a larger one"),
        pytest.param("2-8", "2-16\n", False, id="a larger one in a block of YAML"),
        pytest.param("8,2,4", " 2 - 8 ", False, id="written in another way"),
        pytest.param("2-8/2", "2-8/2", False, id="the same"),
        pytest.param("x", "2-8", False, id="a cure"),
    ],
)
def test_the_smallest_size_stays(judge: Judge, before: str, after: str, refused: bool) -> None:
    old, new = sized(before), sized(after)
    assert bool(judge(new, old=old)) is refused
    assert bool(list(complaints(AdmissionRequest(new, old)))) is refused, "as by the webhook"
    if refused:
        assert not [text for text in judge(new, SCHEDULER, old=old) if "smallest" in text]


def random_text(random: Random) -> str:
    """Mostly sizes whose smallest one is 2, or nearly so."""
    numbers = ["2", "8", "02", "1", "0", "9", "4096", "4097", "999999999", "1000000000", ""]
    count = random.choice([1, 2, 2, 3])
    text = random.choice(["2", "2", random.choice(numbers)])
    for i in range(1, count):
        separator = random.choice(["-/"[i - 1], ",", random.choice("-/,")])
        text += separator + random.choice(numbers)
    if random.random() < 0.5:
        place = random.randrange(len(text) + 1)
        text = text[:place] + random.choice([*SPACES, *NO_SPACES, " ", "\u0662"]) + text[place:]
    return text


def test_the_policy_reads_sizes_as_everybody_does(judge: Judge) -> None:
    """A text that only the policy could read would make a job one that is not elastic."""
    random = Random(1)  # noqa: S311
    texts = ["2-1", "2-8/0", "2-9999", "2,9999", "2-1 6", "2 0-8", "2-8/9999", "8-2", "2-2", "²"]
    texts += [f"{space}2{space}-{space}8{space}" for space in SPACES + NO_SPACES]
    texts += [random_text(random) for _ in range(400)]
    texts += ["2" + ",2" * (sizes.MAX_LENGTH // 2 - 1), "2" + ",2" * (sizes.MAX_LENGTH // 2)]
    changed = judge.updates([(sized("2-8"), sized(text)) for text in texts])
    # a job that could be read before keeps its smallest size, however it was written
    lost = judge.updates([(sized(text), sized("3-8")) for text in texts])
    for text, of_changed, of_lost in zip(texts, changed, lost, strict=True):
        assert ("the smallest of" in "".join(of_changed)) is (smallest(text) != 2), text[:99]
        assert bool(of_lost) is (smallest(text) is not None), text[:99]


def test_sizes_of_a_job_that_is_not_elastic_are_free(judge: Judge) -> None:
    """It was there before Cede was."""
    assert judge(elastic_job(sizes="4-8"), old=elastic_job(sizes="2-8")) == []
