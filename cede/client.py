"""The cluster from Python, for notebooks: what commands of `cede` do, with typed values.

client = Client()
client.explain("gpt").sentences
"""

import asyncio
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cede.extra import missing_sentence

try:
    from cede.api.script_job import ScriptJob, manifest
    from cede.commands.command import BadInput, CommandFailed, Options
    from cede.commands.connection import connected, namespace_of
    from cede.commands.jobs import read_jobs
    from cede.commands.resize import SizeChange, set_desired_size
    from cede.commands.submit import create
    from cede.reading.job import read_explained
    from cede.report import explanation
    from cede.report.explanation import Explanation
    from cede.report.jobs import JobRow
except ModuleNotFoundError as missing:
    raise ImportError(missing_sentence(missing)) from missing

if TYPE_CHECKING:
    from cede.kube.client import HttpClient

__all__ = ["CedeError", "Client", "Explanation", "JobRow", "SizeChange", "Submitted"]

T = TypeVar("T")


class CedeError(Exception):
    """The sentence that the command would print, with the cure."""


@dataclass(frozen=True)
class Submitted:
    """A Job that was created."""

    namespace: str
    name: str
    uid: str


class Client:
    """A cluster with Cede, with your own rights. Each call connects anew and returns when it is
    done.

    Every call raises CedeError if the cluster cannot do it, and ValueError for an argument that
    cannot be right. An object that cannot be read is left out, with a warning.

    Args:
        namespace: of the jobs; by default that of the context, or of the pod of the notebook.
        kubeconfig: the kubeconfig file; by default that of kubectl, or the service account of the
            pod of the notebook.
        context: of the kubeconfig; by default the current one.

    Attributes:
        namespace: of the jobs.
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
    ) -> None:
        self._options = Options(kubeconfig, context)
        with _as_errors():
            self.namespace = namespace_of(self._options, namespace)

    def jobs(self, *, everywhere: bool = False) -> list[JobRow]:
        """The jobs that have not finished, as `cede jobs` shows them.

        Args:
            everywhere: in all namespaces.

        Returns:
            their rows, by namespace and name.
        """
        place = "" if everywhere else self.namespace
        look = self._call(lambda client: read_jobs(client, place))
        _warn(look.warnings)
        return look.facts

    def explain(self, name: str) -> Explanation:
        """Why a job waits, or what happened to it, as `cede explain` says it.

        Args:
            name: of a Job or a Workload.

        Returns:
            its state, which is Unknown if there is no such job; sentences; and the same as facts,
            with the [reason](reasons.md) of each cause.
        """
        key = (self.namespace, name)
        snapshot, notes = self._call(lambda client: read_explained(client, key))
        _warn(notes)
        return explanation.explain(key, snapshot, time.time())

    def submit(
        self,
        script: str,
        *,
        image: str,
        arguments: Sequence[str] = (),
        sizes: str | None = None,
        desired: int | None = None,
        restart: bool = False,
        runtime: str = "",
        name: str = "",
        grace: str = "",
        priority: str = "",
        gpus: int = 1,
    ) -> Submitted:
        """Create a Job that runs a training script, as `cede submit` does.

        Args:
            script: its path inside the image.
            image: with the script and torch.
            arguments: for the script.
            sizes: allowed numbers of pods, such as 2-8; None: one pod, not elastic.
            desired: how many pods you want; by default the most.
            restart: the script was written for torchrun; restart it in its pods at each new size.
            runtime: `image` if the image has Cede, `inject` if Cede is to bring it; by default the
                policy's.
            name: of the Job; by default that of the script.
            grace: how long it may take to save, such as 90s; by default the policy's.
            priority: its priority class; by default the policy's.
            gpus: for each pod.

        Returns:
            its name and uid.
        """
        job = manifest(
            ScriptJob(
                namespace=self.namespace,
                script=script,
                image=image,
                arguments=tuple(arguments),
                sizes=sizes,
                desired=desired,
                restart=restart,
                runtime=runtime,
                name=name,
                grace=grace,
                priority_class=priority,
                gpus=gpus,
            )
        )
        created = self._call(lambda client: create(client, job))
        metadata = created["metadata"]
        return Submitted(metadata["namespace"], metadata["name"], metadata["uid"])

    def resize(self, name: str, size: int) -> SizeChange:
        """Set the desired size of an elastic job, as `cede resize` does.

        Args:
            name: of the Job.
            size: one of its allowed sizes.

        Returns:
            the sizes that it has, wants, and wanted before.
        """
        return self._call(lambda client: set_desired_size(client, (self.namespace, name), size))

    def _call(self, work: Callable[["HttpClient"], Awaitable[T]]) -> T:
        """The result of `work`, which runs in a thread of its own: in this one runs the event loop
        of the notebook."""

        async def connect_and_work() -> T:
            async with connected(self._options) as client:
                return await work(client)

        with _as_errors(), ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(asyncio.run, connect_and_work()).result()


@contextmanager
def _as_errors() -> Iterator[None]:
    """The errors of a command as those of a library."""
    try:
        yield
    except BadInput as error:
        raise ValueError(error.format_message()) from error
    except CommandFailed as error:
        raise CedeError(error.format_message()) from error


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        # the line of the notebook that called
        warnings.warn(sentence, stacklevel=3)
