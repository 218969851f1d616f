"""Two jobs of `research`, a job of `vision` that is asked about, and parts of the answer."""

from typing import Any

from tests.builders.pictures import JobOf, manifest
from whatif.answer import Answer, JobState
from whatif.questions import Picture, ask_submit

ON_BOTH = ["n1"] * 4 + ["n2"] * 4
GPT = JobOf("research", "gpt", 8, ON_BOTH, sizes="2-8")
RIGID = JobOf("research", "rigid", 8, ON_BOTH)


def submit(picture: Picture, name: str = "inference", pods: int = 4, **fields: Any) -> Answer:
    return ask_submit(picture, manifest(name, pods, **fields), "vision")


def effects(answer: Answer) -> list[tuple[str, str, int, int]]:
    return [(c.job, str(c.effect), c.from_size, c.to_size) for c in answer.changes]


def state_of(answer: Answer) -> JobState:
    assert answer.job
    return answer.job.state


def why(answer: Answer) -> str:
    assert answer.job
    return " ".join(answer.job.why)
