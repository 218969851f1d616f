"""Hypothesis strategies for Jobs of which any part may be anything."""

from hypothesis import strategies as st

from cede.api.objects import Json
from tests.builders.jobs import PRIORITY, QUEUE

FIELD_NAMES = st.text(max_size=6) | st.sampled_from(["a/b", "~", "a~1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=3),
    max_leaves=12,
)
LABELS = st.dictionaries(
    st.sampled_from(
        [
            "cede.dev/sizes",
            "cede.dev/grace",
            "cede.dev/desired-size",
            "kueue.x-k8s.io/elastic-job",
            QUEUE,
            PRIORITY,
        ]
    ),
    st.sampled_from(["2-8", "1,2,4", "8", "true", "9s", "training", "default", ""])
    | st.text(max_size=6),
)
COUNTS = st.sampled_from([None, 0, 1, 2, 4, 8, True, "8", 2.0, -1])


@st.composite
def random_jobs(draw: st.DrawFn) -> Json:
    container = st.fixed_dictionaries(
        {},
        optional={
            "name": st.just("a") | JSON,
            "env": JSON,
            "resources": JSON,
            "volumeMounts": JSON,
        },
    )
    pod = st.fixed_dictionaries(
        {"containers": st.lists(container, min_size=1, max_size=2) | JSON},
        optional={
            "restartPolicy": st.just("Never"),
            "volumes": JSON,
            "terminationGracePeriodSeconds": JSON,
            "tolerations": JSON,
        },
    )
    template = st.fixed_dictionaries({"spec": pod | JSON}, optional={"metadata": JSON})
    spec = st.fixed_dictionaries(
        {"parallelism": COUNTS, "completions": COUNTS, "template": template | JSON},
        optional={"completionMode": st.just("Indexed"), "podFailurePolicy": JSON},
    )
    metadata = st.fixed_dictionaries(
        {}, optional={"labels": LABELS, "annotations": LABELS, "ownerReferences": JSON}
    )
    kind = st.sampled_from(
        [{"apiVersion": "batch/v1", "kind": "Job"}, {"apiVersion": "ray.io/v1", "kind": "RayJob"}]
    )
    return draw(kind) | {"metadata": draw(metadata), "spec": draw(spec | JSON)}
