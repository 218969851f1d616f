"""PURE. Which ends of an elastic Job's pods are no failures, and how soon a pod is made again."""

from cede.api.names import IGNORED_FAILURES
from cede.api.objects import Json
from elastic_runtime.contract import IGNORED_EXIT_CODES
from webhook.json_fields import get_dict, get_dicts

NO_LIMIT = 2**31 - 1


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

    The limit itself is never reached: `backoffLimit` stays the one that counts.
    """
    spec.setdefault("backoffLimitPerIndex", NO_LIMIT)


def without_ignored_failures(pod: Json) -> Json:
    """A pod that the Job controller makes again, as the first of its index after an ignored failure
    would be. The count of an index is an annotation of its newest pod, which nothing else resets:
    after six lost nodes pod 0, without which no stopped job starts, would come back after 600 s.

    Failures that are not ignored keep their delays, and `backoffLimit` ends the Job.
    """
    annotations = get_dict(pod, "metadata", "annotations")
    if IGNORED_FAILURES not in annotations:
        return pod
    kept = {name: value for name, value in annotations.items() if name != IGNORED_FAILURES}
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def _drop_empty(rule: Json) -> Json:
    return {name: value for name, value in rule.items() if value}
