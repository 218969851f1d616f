"""PURE. Which ends of an elastic Job's pods are no failures, and how soon a pod is made again."""

from cede.api.names import IGNORED_FAILURES, INDEX_FAILURES, POD_INDEX, SHORT_BACK_OFF
from cede.api.objects import Json
from elastic_runtime.contract import IGNORED_EXIT_CODES
from webhook.json_fields import ensure_dict, get_annotation, get_dict, get_dicts

LIMIT = "backoffLimitPerIndex"
NO_LIMIT = 2**31 - 1
COUNTS_WITH_SHORT_DELAY = ("0", "1")
"""The failures of an index after which its next pod is made within 20 s."""


def make_failure_policy(own_policy: Json, container: str, exit_codes: list[int]) -> Json:
    """Our rules, then the user's. Ours: a pod that leaves on request, that goes down with its node,
    or that is evicted, is no failure."""
    ended = {"containerName": container, "operator": "In", "values": exit_codes}
    our_rules: list[Json] = [
        {"action": "Ignore", "onExitCodes": ended},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    # the API server adds empty fields, with which our own rules would not be recognised
    own_rules = [_drop_empty(rule) for rule in get_dicts(own_policy, "rules")]
    return {
        **own_policy,
        "rules": our_rules + [rule for rule in own_rules if rule not in our_rules],
    }


def read_exit_codes(old: Json, container: str) -> list[int]:
    """The exit codes that the Job ignores since it was created: Kubernetes lets nobody change its
    podFailurePolicy."""
    for rule in get_dicts(get_dict(old, "spec", "podFailurePolicy"), "rules"):
        codes = get_dict(rule, "onExitCodes")
        values = codes.get("values")
        is_ours = rule.get("action") == "Ignore" and codes.get("containerName") == container
        if is_ours and isinstance(values, list):
            return [value for value in values if isinstance(value, int)]
    return list(IGNORED_EXIT_CODES)


def count_delays_per_index(spec: Json) -> None:
    """The Job controller waits 10 s before it makes a failed pod again, then 20, 40, up to 600 s.
    It counts ignored failures too, and only a pod that succeeds resets the count, so a job that
    trains for weeks would wait 600 s after some lost nodes. With a limit for each index, it counts
    the failures of each index alone (Kubernetes: pkg/controller/job/backoff_utils.go).

    The limit itself is never reached: `backoffLimit` stays the one that counts. A user's own limit
    stays, and then the pods do not have the annotation that lets `with_short_delay` lower a count,
    not even if the user wrote it: the limit would never be reached.
    """
    if spec.setdefault(LIMIT, NO_LIMIT) != NO_LIMIT:
        get_dict(spec, "template", "metadata", "annotations").pop(SHORT_BACK_OFF, None)
        return
    ensure_dict(spec, "template", "metadata", "annotations")[SHORT_BACK_OFF] = "true"


def keep_delays_per_index(spec: Json, old_spec: Json) -> None:
    """Restores what `count_delays_per_index` gave, and what an older version of it did not give:
    neither field can be changed."""
    if LIMIT in old_spec:
        spec.setdefault(LIMIT, old_spec[LIMIT])
    if value := get_annotation(get_dict(old_spec, "template"), SHORT_BACK_OFF):
        ensure_dict(spec, "template", "metadata", "annotations").setdefault(SHORT_BACK_OFF, value)


def with_short_delay(pod: Json) -> Json:
    """A pod that the Job controller makes again, without the failures that were ignored: as far as
    they delay it, the next pod of its index is made after 10 s.

    Pod 0 counts one other failure at most, so that the next one is made within 20 s: without it no
    stopped job starts. Other pods keep their delays, because the job trains on without them, and
    `backoffLimit`, which counts every failure that is not ignored, would end it sooner.

    The counts of an index are annotations of its newest pod, which nothing else resets: after six
    lost nodes pod 0 would come back after 600 s.
    """
    annotations = get_dict(pod, "metadata", "annotations")
    kept = {name: value for name, value in annotations.items() if name != IGNORED_FAILURES}
    has_short_delay = SHORT_BACK_OFF in kept and kept.get(POD_INDEX) == "0"
    if has_short_delay and kept.get(INDEX_FAILURES, "0") not in COUNTS_WITH_SHORT_DELAY:
        kept[INDEX_FAILURES] = COUNTS_WITH_SHORT_DELAY[-1]
    if kept == annotations:
        return pod
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def _drop_empty(rule: Json) -> Json:
    return {name: value for name, value in rule.items() if value}
