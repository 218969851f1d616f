"""The dashboards: what each panel asks Prometheus.

`$team` is a ClusterQueue of Kueue, which has the name of its allocation. `$resource` is a resource
of accelerators.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Panel:
    """A time series. `queries`: legend → expression; `unit`: as Grafana names it."""

    title: str
    queries: dict[str, str]
    unit: str = "short"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`variables`: name → the query that lists its values."""

    title: str
    panels: tuple[Panel, ...]
    variables: dict[str, str]


RESOURCE = {"resource": "label_values(kueue_cluster_queue_nominal_quota, resource)"}
TEAM = RESOURCE | {"team": "label_values(kueue_cluster_queue_nominal_quota, cluster_queue)"}
JOB = {
    "namespace": "label_values(elastic_runtime_step, namespace)",
    "training_job": 'label_values(elastic_runtime_step{namespace="$namespace"}, training_job)',
}
CHOSEN_JOB = '{namespace="$namespace", training_job="$training_job"}'
# a second replica of Kueue shows the same figures
LEADER = 'replica_role!="follower"'
GAVE = "Jobs that Cede shrank, drained or stopped, a day"
CHOSEN_TEAM = '{cluster_queue="$team", resource="$resource"}'
DASHBOARDS = {
    "cluster": Dashboard(
        "Cede: cluster",
        (
            Panel("Used, by team", {"{{cluster_queue}}": 'cede:quota_used{resource="$resource"}'}),
            Panel(
                "Owned, by team", {"{{cluster_queue}}": 'cede:quota_owned{resource="$resource"}'}
            ),
            Panel(
                "Borrowed, by team",
                {"{{cluster_queue}}": 'cede:quota_borrowed{resource="$resource"}'},
            ),
            Panel("Lent, by team", {"{{cluster_queue}}": 'cede:quota_lent{resource="$resource"}'}),
            Panel(
                "Owned and not used: lent, or idle",
                {
                    "lent": 'sum(cede:quota_lent{resource="$resource"})',
                    "idle": 'sum(cede:quota_unused{resource="$resource"}) '
                    '- sum(cede:quota_lent{resource="$resource"})',
                },
            ),
            Panel("Workloads that run", {"{{cluster_queue}}": "cede:workloads_running"}),
            Panel(
                "Workloads that wait",
                {
                    "{{cluster_queue}}": "sum by (cluster_queue) "
                    f"(kueue_pending_workloads{{{LEADER}}})"
                },
            ),
            Panel(
                "Jobs that wait or are stopped, by reason",
                {"{{reason}}": "sum by (reason) (cede_waiting_jobs)"},
            ),
            Panel(
                "Mean wait for quota, over a day",
                {"{{cluster_queue}}": "cede:wait_seconds:mean1d"},
                "s",
            ),
            Panel(
                "Mean run time, over a day", {"{{cluster_queue}}": "cede:run_seconds:mean1d"}, "s"
            ),
            Panel(
                GAVE,
                {
                    "{{queue}}: {{how}}": "sum by (queue, how) "
                    "(increase(cede_targets_total[1d])) > 0"
                },
            ),
            Panel(
                "Workloads that Kueue preempted, a day",
                {
                    "of {{cluster_queue}}": "sum by (cluster_queue) "
                    '(increase(kueue_evicted_workloads_total{reason="Preempted"}[1d]))',
                    "for {{preempting_cluster_queue}}": "sum by (preempting_cluster_queue) "
                    "(increase(kueue_preempted_workloads_total[1d]))",
                },
            ),
            Panel(
                "Work kept by ceding and lost by stops, a day, in accelerator-seconds",
                {
                    # without a first stop there is no series
                    "kept": "sum(increase(cede_kept_accelerator_seconds_total[1d])) or vector(0)",
                    "lost": "sum(increase(cede_lost_accelerator_seconds_total[1d])) or vector(0)",
                },
                "s",
            ),
            Panel(
                "Busy accelerators, by team, where DCGM's exporter runs",
                {"{{cluster_queue}}": "cede:devices_busy"},
            ),
            Panel(
                "Use of all devices, where DCGM's exporter runs",
                {"all": "avg(DCGM_FI_DEV_GPU_UTIL)"},
                "percent",
            ),
        ),
        RESOURCE,
    ),
    "team": Dashboard(
        "Cede: team",
        (
            Panel(
                "Owned, used, borrowed, lent",
                {
                    "owned": f"cede:quota_owned{CHOSEN_TEAM}",
                    "used": f"cede:quota_used{CHOSEN_TEAM}",
                    "borrowed": f"cede:quota_borrowed{CHOSEN_TEAM}",
                    "lent": f"cede:quota_lent{CHOSEN_TEAM}",
                },
            ),
            Panel(
                "Used, and busy where DCGM's exporter runs",
                {
                    "used": f"cede:quota_used{CHOSEN_TEAM}",
                    "busy": 'cede:devices_busy{cluster_queue="$team"}',
                },
            ),
            Panel(
                "Workloads",
                {
                    "run": 'cede:workloads_running{cluster_queue="$team"}',
                    "wait": f'sum(kueue_pending_workloads{{cluster_queue="$team", {LEADER}}})',
                },
            ),
            Panel(
                "Mean wait for quota, and mean run time, over a day",
                {
                    "wait": 'cede:wait_seconds:mean1d{cluster_queue="$team"}',
                    "run": 'cede:run_seconds:mean1d{cluster_queue="$team"}',
                },
                "s",
            ),
            Panel(
                GAVE,
                {"{{how}}": 'sum by (how) (increase(cede_targets_total{queue="$team"}[1d]))'},
            ),
            Panel(
                "Evictions, a day",
                {
                    "{{reason}}": "sum by (reason) (increase("
                    'kueue_evicted_workloads_total{cluster_queue="$team"}[1d]))'
                },
            ),
        ),
        TEAM,
    ),
    "job": Dashboard(
        "Cede: job",
        (
            Panel("Pods that train", {"pods": f"max(elastic_runtime_pods{CHOSEN_JOB})"}),
            Panel(
                "Step, and step of the newest checkpoint",
                {
                    "step": f"max(elastic_runtime_step{CHOSEN_JOB})",
                    "saved": f"max(elastic_runtime_durable_step{CHOSEN_JOB})",
                },
            ),
            Panel(
                "Samples per second",
                {"samples": f"max(elastic_runtime_samples_per_second{CHOSEN_JOB})"},
            ),
            Panel(
                "Time of a step, by pod",
                {"{{pod}}": f"elastic_runtime_pod_own_step_seconds{CHOSEN_JOB}"},
                "s",
            ),
            Panel(
                "Where the time went",
                {
                    "{{cause}}": "sum by (cause) "
                    f"(increase(elastic_runtime_seconds_total{CHOSEN_JOB}[1h]))"
                },
                "s",
            ),
            Panel(
                "Resizes and recoveries, an hour",
                {
                    "resizes": f"sum(increase(elastic_runtime_resizes_total{CHOSEN_JOB}[1h]))",
                    "recoveries": "sum(increase("
                    f"elastic_runtime_recoveries_total{CHOSEN_JOB}[1h]))",
                },
            ),
        ),
        JOB,
    ),
    "health": Dashboard(
        "Cede: health",
        (
            Panel("Who leads", {"{{job}} {{pod}}": "cede_leading"}),
            Panel(
                "Since the last pass",
                {"{{job}}": "time() - cede_last_pass_timestamp_seconds and cede_leading == 1"},
                "s",
            ),
            Panel(
                "Time of a pass, p99",
                {
                    "{{part}}": "histogram_quantile(0.99, sum by (le, part) "
                    "(rate(cede_pass_seconds_bucket[10m])))"
                },
                "s",
            ),
            Panel(
                "Failed passes, and parts left out of a plan",
                {
                    "{{job}} {{error}}": "sum by (job, error) (rate(cede_failed_passes_total[5m]))",
                    "left out": "sum(rate(cede_plan_faults_total[5m]))",
                },
            ),
            Panel(
                "Open Cessions, and guards",
                {"Cessions": "max(cede_open_cessions)", "guards": "max(cede_guards)"},
            ),
            Panel("Wait of an owner, p90 of an hour", {"wait": "cede:seconds_to_owner:p90"}, "s"),
            Panel(
                "Objects that cannot be read",
                {"{{kind}}": "sum by (kind) (cede_cache_unreadable_objects)"},
            ),
            Panel("Runtimes that do not answer", {"jobs": "max(cede_silent_runtimes)"}),
            Panel(
                "Webhook: time of an answer, p99",
                {
                    "{{path}}": "histogram_quantile(0.99, sum by (le, path) "
                    "(rate(cede_webhook_seconds_bucket[10m])))"
                },
                "s",
            ),
            Panel(
                "Webhook: until the certificate expires",
                {"left": "min(cede_webhook_certificate_not_after_seconds) - time()"},
                "s",
            ),
        ),
        {},
    ),
}
