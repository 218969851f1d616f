"""PURE. What the scheduler saw of a job's runtime, by its own clock.

A job reports any step and any time that it likes. When the scheduler first saw a step saved is a
time that no job can choose.
"""

from dataclasses import dataclass, replace

from elastic_runtime.contract import Status


@dataclass(frozen=True, slots=True)
class Observed:
    """What one runtime showed since this scheduler follows it. All times are Unix seconds."""

    # the first answer
    since: float = 0.0
    # the newest step that was saved
    durable_step: int = 0
    # when that step was first seen; 0.0 if none was saved since the first answer
    saved_at: float = 0.0
    # the Cession or other reason of the last request for a size, and when it was first asked
    # for it; empty, and 0, once the Job has the size
    asked_for: str = ""
    asked_at: float = 0.0
    asked_size: int = 0
    # since when every pod that answers refuses our requests, and why; 0.0 and empty if one does not
    refused_since: float = 0.0
    refusal: str = ""
    # True if those of its pods that were asked last know no coordinator, as far as they answered
    is_leaderless: bool = False
    # when the scheduler last reported to them that pod 0 has succeeded; 0.0 for never
    finish_reported: float = 0.0
    # the request for a save that it accepted last; why no pod accepted the last one, empty if one
    # did
    save_accepted: str = ""
    save_refusal: str = ""

    def unsaved_s(self, now: float) -> float:
        """Seconds of work that are not saved, as far as this scheduler saw."""
        return max(0.0, now - (self.saved_at or self.since or now))


def observe(old: Observed | None, status: Status | None, now: float) -> Observed:
    """With a new answer of the runtime; None if it did not answer. Silence changes nothing."""
    if status is None:
        return old or Observed()
    if old is None or not old.since:
        # when this step was saved is not known, so it does not count as a save
        return replace(
            old or Observed(),
            since=now,
            durable_step=status.durableStep,
            refused_since=0.0,
            refusal="",
            is_leaderless=False,
        )
    newer = status.durableStep > old.durable_step
    return replace(
        old,
        refused_since=0.0,
        refusal="",
        is_leaderless=False,
        durable_step=max(old.durable_step, status.durableStep),
        saved_at=now if newer else old.saved_at,
    )


def note_refusal(old: Observed | None, reason: str, now: float) -> Observed:
    """With a refusal by the pods. The first reason stays until one of them accepts a request."""
    known = old or Observed()
    if known.refusal:
        return known
    return replace(known, refused_since=now, refusal=reason)


def note_leaderless(old: Observed | None) -> Observed:
    """With the answer of its pods that they know no coordinator."""
    return replace(old or Observed(), is_leaderless=True)


def note_finish(old: Observed | None, now: float) -> Observed:
    """With the report that pod 0 has succeeded."""
    return replace(old or Observed(), finish_reported=now)


def note_request(old: Observed | None, reason: str, size: int, now: float) -> Observed:
    """With a request for a size. A repetition, or another size for the same reason, starts no new
    time while the Job does not have the size."""
    known = old or Observed()
    if known.asked_at and known.asked_for == reason:
        return replace(known, asked_size=size)
    return replace(known, asked_for=reason, asked_at=now, asked_size=size)


def note_save(old: Observed | None, attempt: str, refusal: str) -> Observed:
    """With a request for a save; `refusal` is empty if a pod accepted it."""
    known = old or Observed()
    if refusal:
        return replace(known, save_refusal=refusal)
    return replace(known, save_accepted=attempt, save_refusal="")


def forget_request(old: Observed, size: int) -> Observed:
    """Without the last request if the Job has the `size` that was asked for: a later request for
    the same reason gets its full time again. What the runtime reports cannot renew it."""
    if not old.asked_at or old.asked_size != size:
        return old
    return replace(old, asked_for="", asked_at=0.0, asked_size=0)
