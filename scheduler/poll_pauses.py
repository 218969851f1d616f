"""PURE. How long a job that was polled is left alone."""

FAST_POLL_S = 0.1
"""Between two polls of a job that is changing."""
MAX_FAST_S = 60.0
"""A job that is still changing after this time is polled once a second."""
LATE_POLL_S = 1.0
SLOW_POLL_S = 2.0
"""Between two polls of any other job."""
PATIENT_FAILURES = 5
"""A runtime that has just started does not answer yet: only then do the pauses grow."""
MAX_SILENT_POLL_S = 16.0
"""Between two polls of a job that does not answer; the pause doubles up to this."""


def poll_pause_s(failures: int, changing_s: float | None) -> float:
    """Seconds until the next poll, after so many failures in a row; `changing_s` is how long the
    job has been changing, None if it is not."""
    if failures > PATIENT_FAILURES:
        silent_s = SLOW_POLL_S * 2.0 ** min(failures - PATIENT_FAILURES, 10)
        return LATE_POLL_S if changing_s is not None else min(MAX_SILENT_POLL_S, silent_s)
    if changing_s is None:
        return SLOW_POLL_S
    return FAST_POLL_S if changing_s < MAX_FAST_S else LATE_POLL_S
