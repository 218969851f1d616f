"""PURE. On which flavors Kueue may place the pods of a pod set (pkg/scheduler/flavorassigner)."""

from collections.abc import Collection, Mapping

from cede.api.kueue import PodSet, ResourceFlavorSpec, TopologyRequest
from cede.api.node_selection import Term, matches_any, required_terms, untolerated
from cede.api.pod_templates import TemplateSpec

Flavors = Mapping[str, ResourceFlavorSpec]
"""By name."""


def unsuitable_flavors(
    pod_set: PodSet, queue_flavors: Collection[str], flavors: Flavors
) -> frozenset[str]:
    """The flavors of a queue on which Kueue does not place these pods: by their node selector and
    affinity, by taints, and by topology.

    Kueue: flavorassigner.go, checkFlavorForPodSets. A flavor that we do not know counts as
    suitable: its ClusterQueue is not active.
    """
    known = {name: flavors[name] for name in queue_flavors if name in flavors}
    has_only_topologies = all(flavor.topologyName for flavor in known.values())
    wants_topology = _wants_topology(pod_set.topologyRequest)
    return frozenset(
        name
        for name, flavor in known.items()
        if not _is_suitable(pod_set.template.spec, flavor)
        or (not has_only_topologies and bool(flavor.topologyName) != wants_topology)
    )


def _is_suitable(spec: TemplateSpec, flavor: ResourceFlavorSpec) -> bool:
    if untolerated(flavor.nodeTaints, (*spec.tolerations, *flavor.tolerations)):
        return False
    labels = flavor.nodeLabels
    selector = {key: value for key, value in spec.nodeSelector.items() if key in labels}
    return selector.items() <= labels.items() and matches_any(_terms(spec, labels), labels)


def _terms(spec: TemplateSpec, labels: Mapping[str, str]) -> tuple[Term, ...] | None:
    """The required terms, with only those labels that the flavor has; None if any flavor will do.

    A term of which nothing is left matches any flavor, and one of the terms is enough
    (flavorassigner.go, flavorSelector).
    """
    terms = list[Term]()
    for term in required_terms(spec.affinity) or ():
        expressions = tuple(
            requirement for requirement in term.matchExpressions if requirement.key in labels
        )
        if not expressions:
            return None
        terms.append(Term(expressions))
    return tuple(terms) or None


def _wants_topology(request: TopologyRequest | None) -> bool:
    """Kueue: pkg/workload/workload.go, IsExplicitlyRequestingTAS."""
    if request is None:
        return False
    return (
        request.required is not None
        or request.preferred is not None
        or request.unconstrained is not None
        or request.podSetSliceRequiredTopology is not None
        or request.podSetSliceSize is not None
    )
