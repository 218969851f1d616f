"""How long a job pauses after Cessions for it that failed."""

import pytest

from cede.api.cession_pause import pause_s


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 30.0), (2, 60.0), (5, 480.0), (6, 600.0), (999, 600.0)]
)
def test_the_pause_doubles_up_to_ten_minutes(failures: int, seconds: float) -> None:
    assert pause_s(failures) == seconds
