"""No metric has more series than code, teams and instance types give it."""

from math import prod

from tests.unit.docs.metric_tables import BOUNDS, Fixed, ForEach, GrowsWith, labels

MAX_SERIES = 200
"""Of one metric, beside what grows with teams or types."""


def test_every_label_has_a_reason_why_its_values_are_few() -> None:
    missing = labels() - BOUNDS.keys()
    assert not missing, f"say in BOUNDS what bounds {missing}"
    assert not BOUNDS.keys() - labels()


def test_the_fixed_values_of_a_metric_make_few_series() -> None:
    for metric in {metric for metric, _ in BOUNDS}:
        bounds = [bound for (name, _), bound in BOUNDS.items() if name == metric]
        sizes = [len(bound.values) for bound in bounds if isinstance(bound, Fixed)]
        sizes += [bound.most for bound in bounds if isinstance(bound, ForEach)]
        assert prod(sizes) <= MAX_SERIES, metric


def test_a_metric_grows_with_one_thing_at_most() -> None:
    growing = [metric for (metric, _), bound in BOUNDS.items() if isinstance(bound, GrowsWith)]
    assert len(growing) == len(set(growing))
