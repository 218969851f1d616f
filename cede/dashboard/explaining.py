"""What `cede explain` says of a job, for the page."""

import time
from dataclasses import replace

from cede.api.objects import Key
from cede.kube.client import HttpClient
from cede.kube.errors import ApiError
from cede.kube.failures import failure_sentence
from cede.reading.job import read_explained
from cede.report.explanation import Explanation, explain


async def explained(client: HttpClient, key: Key) -> Explanation:
    """With the rights of the client. An error becomes the explanation."""
    try:
        snapshot, warnings = await read_explained(client, key)
    except ApiError as error:
        namespace, name = key
        return Explanation(namespace, name, "Unknown", (failure_sentence(error),))
    explanation = explain(key, snapshot, time.time())
    return replace(explanation, sentences=(*explanation.sentences, *warnings))
