"""PURE. What an answer assumes and what it does not know. Every answer prints it."""

ALWAYS = (
    "no job ends, no other job is submitted, and nobody else changes anything",
    "every take-back succeeds, and every runtime hands over as soon as it is asked",
    "pods start as soon as a node has room; topology, ports, volumes and images are left out",
    "Deployments that get replicas back are shown, and their new pods are not followed",
)
NO_RUNTIMES = (
    "no runtime was asked: every elastic job that has all its pods ready is taken to train on them"
)
NO_NAMESPACES = (
    "namespaces are not in a snapshot: an allocation may conflict with one that Cede did not make"
)


def assumptions(knows_runtimes: bool, knows_namespaces: bool) -> tuple[str, ...]:
    """The sentences."""
    return (
        *ALWAYS,
        *(() if knows_runtimes else (NO_RUNTIMES,)),
        *(() if knows_namespaces else (NO_NAMESPACES,)),
    )
