"""Which taints keep a pod away. Selectors and affinity are tested with DaemonSets (test_pods.py)
and with flavors (scheduler/test_flavors.py)."""

import pytest

from cede.api.node_selection import Taint, Term, Toleration, matches_any, untolerated

SPOT = Taint("spot", "NoSchedule", "yes")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(Toleration(operator="Exists"), None, id="all"),
        pytest.param(Toleration("spot", "Exists"), None, id="the key"),
        pytest.param(Toleration("spot", value="yes"), None, id="key and value"),
        pytest.param(Toleration("spot", value="no"), SPOT, id="another value"),
        pytest.param(Toleration("spot", "Exists", effect="NoExecute"), SPOT, id="another effect"),
    ],
)
def test_a_toleration_must_match_the_taint(toleration: Toleration, expected: Taint | None) -> None:
    assert untolerated([SPOT], [toleration]) == expected


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert untolerated([Taint("spot", "PreferNoSchedule")], []) is None


def test_no_node_matches_an_empty_term_and_every_node_matches_no_terms() -> None:
    assert not matches_any([Term()], {"zone": "a"})
    assert matches_any(None, {})
