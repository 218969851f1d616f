"""PURE. How long a job pauses after Cessions for it that failed."""

FIRST_PAUSE_S = 30.0
"""After the first Cession that failed; doubled with each further one, up to MAX_PAUSE_S."""
MAX_PAUSE_S = 600.0


def pause_s(failures: int) -> float:
    """Seconds after the last of so many failures in a row; 0.0 if there is none."""
    if not failures:
        return 0.0
    # the number of failures may be large
    return float(min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10)))
