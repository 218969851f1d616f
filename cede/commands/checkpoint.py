"""`cede checkpoint`: a running elastic job saves now."""

import time
from asyncio import sleep
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api import durations, names, save_request
from cede.api.kueue import Job
from cede.api.objects import JOBS, Key, rfc3339
from cede.causes.snapshot import leads
from cede.commands.command import DONE, FAILED, JOB, NAMESPACE, BadInput, CommandFailed, Options
from cede.commands.connection import connected, namespace_of, read_job
from cede.commands.output import show, warn
from cede.kube.errors import ApiError, NotFound
from cede.kube.failures import failure_sentence, may_pass
from cede.reading.reader import Reader, read_shared
from cede.report.saves import SaveProgress, progress, why_not_now

if TYPE_CHECKING:
    from cede.kube.client import Client

POLL_S = 1.0
ANSWER_S = 15.0
"""After so long without an answer it is asked whether a scheduler leads."""
NO_WAIT = Annotated[
    bool,
    typer.Option("--no-wait", help="do not wait until the job has saved", show_default=False),
]
TIMEOUT = Annotated[
    str,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="how long to wait, such as 90s or 1h (default: 10m)",
        show_default=False,
    ),
]


async def checkpoint(
    chosen: Options,
    name: JOB,
    no_wait: NO_WAIT = False,
    limit: TIMEOUT = "10m",
    namespace: NAMESPACE = None,
) -> int:
    """Ask a running elastic job to save now, and wait until it has.

    The job trains on meanwhile. Whoever may patch the Job may do it. A request that is not answered
    yet is joined. What the job reports, such as a full disk, is in the answer and in its events.
    """
    key = (namespace_of(chosen, namespace), name)
    limit_s = _seconds(limit)
    async with connected(chosen) as client:
        request = await _request(client, key)
        watch = _Watch(client, key, request, SaveProgress(f"{name} is to save"))
        if not no_wait:
            await watch.wait(limit_s)
    facts = {
        "namespace": key[0],
        "name": name,
        "request": request,
        "saved": watch.last.has_saved,
        "step": watch.last.step,
        "message": watch.last.sentence,
    }
    show(chosen, facts, [watch.last.sentence])
    return FAILED if watch.last.has_saved is False else DONE


async def _request(client: "Client", key: Key) -> str:
    """The text of the request that is on the Job now."""
    job = await read_job(client, key)
    if reason := why_not_now(job):
        raise CommandFailed(reason)
    present = save_request.read(job.metadata.annotations)
    if present and present.is_open:
        return present.text
    # two requests in one second are two
    request = rfc3339(time.time(), micro=True)
    note = {"metadata": {"annotations": {names.SAVE_REQUESTED: request}}}
    await client.patch(JOBS, key, note)
    return request


@dataclass
class _Watch:
    """What became of the request, as it was seen last."""

    client: "Client"
    key: Key
    request: str
    last: SaveProgress

    async def wait(self, limit_s: float) -> None:
        """Until it has saved or has not. Prints what changes meanwhile. Raises CommandFailed when
        the time is over."""
        began = time.monotonic()
        is_checked = False
        await self._look()
        while self.last.has_saved is None:
            waited_s = time.monotonic() - began
            if waited_s >= limit_s:
                raise CommandFailed(
                    f"{self.last.sentence}; waited {durations.describe(limit_s)}: it may save "
                    f"later, see `kubectl describe job {self.key[1]} -n {self.key[0]}`"
                )
            if waited_s >= ANSWER_S and not is_checked:
                is_checked = True
                await self._check_leader()
            await sleep(POLL_S)
            await self._look()

    async def _look(self) -> None:
        try:
            job: Job | None = await self.client.get(JOBS, Job, self.key)
        except NotFound:
            job = None
        except ApiError as error:
            if not may_pass(error):
                raise
            self._note(SaveProgress(failure_sentence(error)))
            return
        self._note(progress(self.key[1], job, self.request))

    def _note(self, present: SaveProgress) -> None:
        if present.has_saved is None and present != self.last:
            warn([present.sentence])
        self.last = present

    async def _check_leader(self) -> None:
        """What cannot be read about that, or not now, does not end the wait."""
        with suppress(ApiError):
            snapshot = await read_shared(Reader(self.client))
            if leads(snapshot, time.time()) is not False:
                return
            warn(["no scheduler leads, so nobody asks the job yet: see `cede status`"])


def _seconds(text: str) -> int:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise BadInput(f"--timeout: {error}") from error
