"""PURE. How long a stage of a Cession has lasted, in the time of the scheduler that leads.

Stages are recorded as times, so that the next leader knows them. Nothing irreversible depends on
the time in which nobody led, or on a clock that differs from the last leader's.
"""

from cede.api.objects import rfc3339, unix


def once(time: str, now: float) -> str:
    """The recorded time; now if there is none yet."""
    return time or rfc3339(now, micro=True)


def led_s(since: str, led_since: float, now: float) -> float:
    """Seconds since this recorded time in which the present scheduler led; 0.0 if it is empty.

    A time before `led_since` was recorded by an earlier leader. So was one after `now`, by a
    leader whose clock was ahead. Both count from `led_since`.
    """
    if not since:
        return 0.0
    start = unix(since)
    # rfc3339 rounds down to microseconds
    is_own = led_since - 1e-3 <= start <= now + 1e-3
    return max(0.0, now - (start if is_own else led_since))
