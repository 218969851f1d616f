"""Predictions with the person's own token, which nobody else sees."""

import json
from pathlib import Path

import pytest
from kubernetes.aio.client.configuration import Configuration

from cede.dashboard import questions
from cede.dashboard.people.as_person import as_person
from cede.dashboard.questions import Question
from cede.kube.connection import load_configuration
from cede.prediction import Prediction


async def test_the_program_gets_the_token_in_a_file_that_is_on_no_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Configuration()
    asked: list[str] = []

    async def predict(_: str, options: dict[str, str], *__: object, **more: object) -> Prediction:
        asked.append(json.dumps(options))
        path = options["kubeconfig"]
        # as the program does, and once more after a refusal
        for _attempt in range(2):
            await load_configuration(read, path)
        assert more["open_files"] == (int(Path(path).name),)
        return Prediction(0, "nothing changes\n")

    monkeypatch.setattr(questions, "predict", predict)
    own = Configuration(host="https://api.example")
    async with as_person(own) as persons:
        answer = await persons.predict("the-token", Question("drain", nodes=("n1",)))
    assert answer.text == "nothing changes\n"
    assert (read.host, read.api_key["BearerToken"]) == ("https://api.example", "Bearer the-token")
    assert "the-token" not in asked[0]


async def test_it_has_none_of_our_own_credentials() -> None:
    own = Configuration(host="https://api.example", api_key={"BearerToken": "ours"})
    own.cert_file, own.key_file = "/nowhere/tls.crt", "/nowhere/tls.key"
    async with as_person(own) as persons:
        client = persons.client("theirs")
        assert await client._credentials() == {"Authorization": "Bearer theirs"}
