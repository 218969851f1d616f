"""Live copies of all that the page is made of, as far as the caller's rights go."""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cede.api import job_progress, kueue, names, objects
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.job_progress import Progress, ProgressConfigMap
from cede.api.objects import Key, Kind
from cede.api.policy import ClusterPolicy
from cede.api.written_workload import WrittenWorkload
from cede.causes.snapshot import COMPONENT_BY_LEASE
from cede.dashboard.rights import EVERYWHERE, readable_namespaces, with_progress
from cede.dashboard.view import MAX_WATCHED, UnreadObject, View
from cede.kube.backoff import Backoff
from cede.kube.cache import Cache
from cede.kube.client import MUTE_S, HttpClient
from cede.kube.errors import ApiError, Forbidden, NotFound, Unreadable
from cede.kube.failures import failure_sentence
from cede.reading.reader import unreadable_progress

PULSE_S = 5.0
"""How often the API server is asked whether it answers: a watch that is cut tells only later."""
RIGHTS_S = 300.0
"""After how long rights are asked for again; at once when there are other teams."""
STALE_S = MUTE_S + 30.0
"""A watch on which the server sends nothing is made again before. One that still brings nothing
fails, or is not allowed any more."""
BACKOFF = Backoff(max_s=5.0)
"""A person waits for the page, and there is one of it, not one for each node."""


NamespaceCaches = tuple[Cache[kueue.Job], Cache[WrittenWorkload], Cache[kueue.LocalQueue]]


class Watches:
    """`changed` is called after every change of what `view` returns."""

    def __init__(self, client: HttpClient, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._policies = self._cache(objects.POLICIES, ClusterPolicy)
        self._allocations = self._cache(objects.ALLOCATIONS, ComputeAllocation, self._teams_changed)
        self._cessions = self._cache(objects.CESSIONS, Cession)
        self._queues = self._cache(objects.CLUSTER_QUEUES, kueue.ClusterQueue)
        self._cohorts = self._cache(objects.COHORTS, kueue.Cohort)
        self._classes = self._cache(objects.PRIORITY_CLASSES, kueue.MetadataOnly)
        self._leases = self._cache(objects.LEASES, kueue.Lease, namespace=names.SYSTEM_NAMESPACE)
        # by namespace; EVERYWHERE for all of them in one
        self._jobs: dict[str, NamespaceCaches] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        # the same, where how far jobs are may be read
        self._progress: dict[str, Cache[ProgressConfigMap]] = {}
        self._progress_tasks: dict[str, asyncio.Task[None]] = {}
        # by its key: the object that was parsed last, and what it says
        self._parsed: dict[Key, tuple[ProgressConfigMap, Progress | None]] = {}
        self._team_namespaces = frozenset[str]()
        # that may be read, and are too many
        self._left_out = frozenset[str]()
        self._ask_again = asyncio.Event()
        self._rights_known = False
        self._trouble = ""

    def _cache(
        self,
        kind: Kind,
        cls: type[Any],
        changed: Callable[[], None] | None = None,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> Cache[Any]:
        return Cache(
            self._client,
            kind,
            cls,
            namespace=namespace,
            labels=labels,
            fields=fields,
            changed=changed or self._changed,
            backoff=BACKOFF,
        )

    @property
    def _shared(self) -> Sequence[Cache[Any]]:
        return (
            *(self._policies, self._allocations, self._cessions, self._queues, self._cohorts),
            *(self._classes, self._leases),
        )

    def _all(self) -> Iterable[Cache[Any]]:
        yield from self._shared
        for caches in self._jobs.values():
            yield from caches
        yield from self._progress.values()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._shared:
                group.create_task(cache.run())
            group.create_task(self._feel_pulse())
            group.create_task(self._follow_rights(group))

    # --- what was read ----------------------------------------------------------------------------
    @property
    def age_s(self) -> float:
        """How long ago the server confirmed the oldest copy of what may be read; infinite at
        first."""
        ages = (cache.age_s for cache in self._all() if not cache.trouble)
        return max(ages, default=math.inf)

    def view(self) -> View:
        leases = {
            name: self._leases.get((names.SYSTEM_NAMESPACE, name))
            for name in COMPONENT_BY_LEASE
            if self._leases.synced.is_set()
        }
        policies = self._policies.all()
        notes = self._notes()
        hidden = frozenset(
            cache.kind.plural
            for cache in self._shared
            if isinstance(cache.trouble, Forbidden | NotFound)
        )
        return View(
            policy=policies[0] if policies else None,
            allocations=self._allocations.all(),
            cessions=self._cessions.all(),
            queues=self._queues.all(),
            leases=leases,
            jobs=[job for jobs, _, _ in self._jobs.values() for job in jobs.all()],
            workloads=[item for _, items, _ in self._jobs.values() for item in items.all()],
            local_queues=[item for _, _, items in self._jobs.values() for item in items.all()],
            progress={key[0]: progress for key, progress in notes.items() if progress},
            cohorts=self._cohorts.all(),
            priority_classes=self._class_names(),
            incomplete=frozenset(
                cache.kind.plural
                for cache in self._all()
                if cache.unreadable or not cache.synced.is_set()
            ),
            unreadable=self._unreadable(notes),
            hidden_kinds=hidden,
            team_namespaces=self._team_namespaces,
            hidden_namespaces=self._hidden_namespaces(),
            left_out=self._left_out,
            sees_policy=self._policies.synced.is_set(),
            trouble=self._trouble,
            reading=not self._complete(),
        )

    def _notes(self) -> dict[Key, Progress | None]:
        """How far jobs are, by ConfigMap; None: what it says cannot be read. Only those that have
        changed are parsed: 500 jobs of one take a millisecond."""
        before = self._parsed
        self._parsed = {}
        for cache in self._progress.values():
            for item in cache.all():
                key = item.metadata.key
                last, progress = before.get(key, (None, None))
                self._parsed[key] = item, progress if last is item else job_progress.read(item)
        return {key: progress for key, (_, progress) in self._parsed.items()}

    def _class_names(self) -> frozenset[str] | None:
        """None: not known."""
        return frozenset(item.metadata.name for item in self._classes.all()) or None

    def _unreadable(self, notes: Mapping[Key, Progress | None]) -> list[UnreadObject]:
        plural = objects.CONFIG_MAPS.plural
        written_by_others = [
            UnreadObject(plural, key[0], failure_sentence(unreadable_progress(key)))
            for key, progress in notes.items()
            if progress is None
        ]
        written_in_part = [
            UnreadObject(plural, key[0], progress.left_out_sentence(key[0]))
            for key, progress in notes.items()
            if progress and progress.left_out
        ]
        of_other_versions = [
            UnreadObject(cache.kind.plural, key[0], failure_sentence(Unreadable(reason, key)))
            for cache in self._all()
            for key, reason in cache.unreadable.items()
        ]
        return [*written_by_others, *written_in_part, *of_other_versions]

    def _hidden_namespaces(self) -> frozenset[str]:
        if not self._rights_known or EVERYWHERE in self._jobs:
            return frozenset()
        return self._team_namespaces - self._jobs.keys() - self._left_out

    def _complete(self) -> bool:
        return self._rights_known and all(
            cache.synced.is_set() or cache.trouble for cache in self._all()
        )

    # --- rights -----------------------------------------------------------------------------------
    def _teams_changed(self) -> None:
        present = frozenset(
            allocation.status.namespace or allocation.namespace
            for allocation in self._allocations.all()
        )
        if present != self._team_namespaces or self._allocations.trouble:
            self._team_namespaces = present
            self._ask_again.set()
        self._changed()

    async def _follow_rights(self, group: asyncio.TaskGroup) -> None:
        """Watches the jobs of the namespaces that the caller may read, and of no other."""
        while True:
            self._ask_again.clear()
            wait_s = RIGHTS_S
            teams, are_known = self._team_namespaces, self._teams_are_known()
            try:
                readable = await readable_namespaces(self._client, teams)
                noted = await with_progress(self._client, readable[:MAX_WATCHED])
            except ApiError:
                # what was allowed stays; the pulse says what is wrong
                wait_s = PULSE_S
            else:
                self._left_out = frozenset(readable[MAX_WATCHED:])
                self._watch_jobs(group, readable[:MAX_WATCHED])
                self._watch_progress(group, noted)
                self._rights_known = EVERYWHERE in readable or are_known
                self._changed()
            try:
                async with asyncio.timeout(wait_s):
                    await self._ask_again.wait()
            except TimeoutError:
                continue

    def _watch_jobs(self, group: asyncio.TaskGroup, namespaces: Sequence[str]) -> None:
        for namespace in [name for name in self._jobs if name not in namespaces]:
            del self._jobs[namespace]
            for task in self._tasks.pop(namespace):
                task.cancel()
        for namespace in namespaces:
            if namespace in self._jobs:
                continue
            caches: NamespaceCaches = (
                self._cache(objects.JOBS, kueue.Job, namespace=namespace, labels=names.QUEUE_NAME),
                self._cache(objects.WORKLOADS, WrittenWorkload, namespace=namespace),
                self._cache(objects.LOCAL_QUEUES, kueue.LocalQueue, namespace=namespace),
            )
            self._jobs[namespace] = caches
            self._tasks[namespace] = [group.create_task(cache.run()) for cache in caches]

    def _watch_progress(self, group: asyncio.TaskGroup, namespaces: Sequence[str]) -> None:
        for namespace in self._progress.keys() - set(namespaces):
            del self._progress[namespace]
            self._progress_tasks.pop(namespace).cancel()
        for namespace in set(namespaces) - self._progress.keys():
            cache = self._cache(
                objects.CONFIG_MAPS,
                ProgressConfigMap,
                namespace=namespace,
                fields=job_progress.FIELDS,
            )
            self._progress[namespace] = cache
            self._progress_tasks[namespace] = group.create_task(cache.run())

    def _teams_are_known(self) -> bool:
        return self._allocations.synced.is_set() or bool(self._allocations.trouble)

    # --- the API server ---------------------------------------------------------------------------
    async def _feel_pulse(self) -> None:
        """Finds that the API server does not answer, or not to us or not about some objects, and
        that it does again."""
        while True:
            try:
                await self._client.describe("/version")
                trouble = self._why_stale()
            except ApiError as error:
                trouble = failure_sentence(error)
            if trouble != self._trouble:
                self._trouble = trouble
                self._changed()
            await asyncio.sleep(PULSE_S)

    def _why_stale(self) -> str:
        """Empty if everything that may be read was read, and is up to date."""
        for cache in self._all():
            if cache.trouble and not isinstance(cache.trouble, Forbidden | NotFound):
                return f"{cache.kind.plural} cannot be read: {failure_sentence(cache.trouble)}"
        stale = {
            cache.kind.plural
            for cache in self._all()
            if cache.synced.is_set() and cache.age_s > STALE_S
        }
        if not stale:
            return ""
        return (
            f"the API server sends nothing more about {', '.join(sorted(stale))}; see whether you "
            f"may still read that: `kubectl auth can-i list {min(stale)}`"
        )
