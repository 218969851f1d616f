"""Modules that have no test file of their own, which other test covers them, and why."""

CRD_MODELS = "tests/unit/cede_api/test_crd_definition.py"
CAUSES = "tests/unit/cede_cli/causes/test_job_causes.py"
COVERED_BY: dict[str, tuple[str, str]] = {
    "cede/api/team_days.py": (
        "tests/unit/ledger/test_days.py",
        "dataclasses that are made there",
    ),
    "cede/dashboard/visitor.py": (
        "tests/unit/cede_cli/dashboard/test_server.py",
        "types without code; both kinds of access are checked there and in test_access.py",
    ),
    "cede/report/installation_facts.py": (
        "tests/unit/cede_cli/report/test_installation.py",
        "dataclasses without code; the findings are made of them there",
    ),
    "scheduler/finish_actions.py": (
        "tests/unit/scheduler/resizing/test_late_pods.py",
        "a dataclass that is made there",
    ),
    "cede/api/alternative.py": (CRD_MODELS, "models only; every schema is checked there"),
    "cede/api/allocation_status.py": (CRD_MODELS, "models only; every schema is checked there"),
    "cede/api/instance_type.py": (CRD_MODELS, "models only; every schema is checked there"),
    "cede/api/pod_templates.py": (
        "tests/unit/cede_api/test_pods.py",
        "a dataclass without code; requests are computed from it there",
    ),
    "cede/api/policy.py": (CRD_MODELS, "models only; every schema is checked there"),
    "cede/api/priority_class.py": (
        "tests/unit/webhook/test_team.py",
        "which classes a team may use is checked there",
    ),
    "cede/api/servers.py": (
        "tests/unit/scheduler/snapshot/test_servers.py",
        "dataclasses without code; what they say is read there",
    ),
    "cede/api/preference_reasons.py": (
        "tests/unit/cede_api/test_reasons.py",
        "every reason and its sentence are checked there",
    ),
    "cede/api/wait_reasons.py": (
        "tests/unit/cede_api/test_reasons.py",
        "every reason and its sentence are checked there",
    ),
    "cede/api/team_security.py": (CRD_MODELS, "models only; every schema is checked there"),
    "cede/api/team_quota.py": (CRD_MODELS, "models only; every schema is checked there"),
    "elastic_runtime/checkpointing/durable_files.py": (
        "tests/unit/elastic_runtime/checkpointing/test_checkpoint_directory.py",
        "two calls of the system; what fails in them is tried there, and for the mark of the best",
    ),
    "cede/reading/job.py": (
        "tests/unit/cede_cli/commands/test_explain.py",
        "what is read in each state of a job is checked there",
    ),
    "cede/kube/backoff.py": (
        "tests/unit/cede_kube/test_cache.py",
        "the delays after failed watches are checked there",
    ),
    "cede/kube/encoding.py": (
        "tests/unit/cede_kube/test_client.py",
        "what is sent is compared there with what the server received",
    ),
    "cede/causes/facts.py": (
        CAUSES,
        "dataclasses; their texts are checked there and in test_explanation.py",
    ),
    "cede/causes/index.py": (CAUSES, "every cause is looked up through it there"),
    "cede/causes/idle.py": (
        "tests/unit/cede_cli/causes/test_size.py",
        "growth with and without idle quota is checked there",
    ),
    "cede/causes/maximum.py": (
        "tests/unit/cede_cli/causes/test_quota.py",
        "what a queue may use at most is one of the causes there",
    ),
    "cede/causes/queue_quota.py": (
        "tests/unit/cede_cli/causes/test_quota.py",
        "who holds what, and how much is kept, is checked there",
    ),
    "cede/extra.py": ("tests/unit/cede_cli/test_cli.py", "its sentence is compared there"),
    "cede/reading/reader.py": (
        "tests/unit/cede_cli/commands/test_status.py",
        "lists and gets; what is read is checked there and in test_explain.py",
    ),
    "cede/commands/release.py": ("tests/unit/cede_cli/test_release.py", "its steps run there"),
    "elastic_runtime/arguments.py": (
        "tests/unit/elastic_runtime/test_main.py",
        "every argument is given there to the program",
    ),
    "elastic_runtime/agent/command_worker.py": (
        "tests/unit/elastic_runtime/agent/test_restarted_rank.py",
        "both of its workers go through it there, and in test_external_command.py",
    ),
    "elastic_runtime/agent/coordination.py": (
        "tests/unit/elastic_runtime/agent/test_coordinator_client.py",
        "messages only; both ends are checked there",
    ),
    "elastic_runtime/agent/http_message.py": (
        "tests/unit/elastic_runtime/agent/test_control_server.py",
        "bytes that are no message are sent there to both ends",
    ),
    "elastic_runtime/agent/job_status.py": (
        "tests/unit/elastic_runtime/agent/test_coordinator.py",
        "the status follows there from the reports of pods",
    ),
    "elastic_runtime/state/destination.py": (
        "tests/unit/elastic_runtime/checkpointing/test_stored_state.py",
        "what a destination wants is read there",
    ),
    "elastic_runtime/integrations/transformers/evaluation.py": (
        "tests/frameworks/test_transformers.py",
        "needs transformers; metrics are compared with Trainer's there",
    ),
    "elastic_runtime/integrations/transformers/models.py": (
        "tests/frameworks/test_transformers.py",
        "needs transformers; early stopping loads the best model there",
    ),
    "elastic_runtime/integrations/transformers/progress.py": (
        "tests/frameworks/test_transformers.py",
        "needs transformers; a job that is started again continues with it there",
    ),
    "elastic_runtime/integrations/transformers/restart_callback.py": (
        "tests/frameworks/test_transformers_restart.py",
        "needs transformers, so it is tried in the environment of the frameworks",
    ),
    "elastic_runtime/integrations/lightning/restart_callback.py": (
        "tests/frameworks/test_lightning_restart.py",
        "needs Lightning, so it is tried in the environment of the frameworks",
    ),
    "elastic_runtime/integrations/transformers/setup.py": (
        "tests/frameworks/test_transformers.py",
        "needs transformers; every job there is set up by it",
    ),
    "elastic_runtime/integrations/transformers/trainer.py": (
        "tests/frameworks/test_transformers.py",
        "needs transformers; it is compared with Trainer there",
    ),
    **{
        f"elastic_runtime/integrations/lightning/{module}.py": (
            "tests/frameworks/test_lightning.py",
            "real modules of Lightning train there; mistakes are in test_lightning_mistakes.py",
        )
        for module in (
            "data",
            "fitting",
            "hooks",
            "logged_values",
            "loop",
            "metric_states",
            "mistakes",
            "optimizers",
            "options",
            "trainer",
            "validation",
        )
    },
    "webhook/runtime_pods.py": (
        "tests/unit/webhook/test_elastic_defaults.py",
        "the pods of elastic Jobs are checked there, those of JobSets in test_job_sets.py",
    ),
    "webhook/review_body.py": (
        "tests/unit/webhook/test_server.py",
        "bodies that are too large, too deep or never end are sent there",
    ),
    "elastic_runtime/agent/election.py": (
        "tests/unit/elastic_runtime/agent/test_leadership.py",
        "agents elect there over their control ports",
    ),
    "elastic_runtime/agent/knowledge.py": (
        "tests/unit/elastic_runtime/agent/test_succession.py",
        "what agents decide by it is checked there",
    ),
    "elastic_runtime/agent/request_router.py": (
        "tests/unit/elastic_runtime/agent/test_coordinator_client.py",
        "every pod answers or forwards there",
    ),
    "elastic_runtime/mistake.py": (
        "tests/unit/elastic_runtime/training/test_failure_report.py",
        "an exception without code; what becomes of it is checked there",
    ),
    "elastic_runtime/training/stateful.py": (
        "tests/unit/elastic_runtime/test_session.py",
        "protocols only; mypy checks who fulfils them",
    ),
    "ledger/month_sums.py": (
        "tests/unit/ledger/test_books.py",
        "what is read is compared there with what was written, in both databases",
    ),
    "ledger/statement_tables.py": (
        "tests/unit/ledger/test_statement.py",
        "the tables are read there as they are printed",
    ),
    "ledger/tables.py": (
        "tests/unit/ledger/test_books.py",
        "tables only; both databases make them there",
    ),
    "cede/api/certificates.py": (
        "tests/unit/quota_controller/certificates/test_rotation.py",
        "values; every bound of a validity is a step there",
    ),
    "quota_controller/desired/desired_object.py": (
        "tests/unit/quota_controller/desired/test_plan.py",
        "the plan consists of these objects",
    ),
    "quota_controller/desired/team_namespace.py": (
        "tests/unit/quota_controller/desired/test_plan.py",
        "the objects of a namespace are compared there",
    ),
    "cede/kueue_settings/config.py": (
        "tests/unit/cede_cli/kueue_settings/test_checks.py",
        "what is read of a file is what the checks are about",
    ),
    "cede/api/verdict.py": (
        "tests/unit/quota_controller/status/test_allocation_conditions.py",
        "every verdict becomes a condition there",
    ),
    "scheduler/write_versions.py": (
        "tests/unit/scheduler/test_apply.py",
        "writes that a newer version refuses are tested there",
    ),
    "scheduler/simulate/assumptions.py": (
        "tests/unit/scheduler/simulate/test_cluster.py",
        "figures only; the cluster follows them",
    ),
    "scheduler/simulate/figures.py": (
        "tests/unit/scheduler/simulate/test_replay.py",
        "the figures of a replay are checked there",
    ),
    "scheduler/simulate/objects.py": (
        "tests/unit/scheduler/simulate/test_cluster.py",
        "records that the cluster fills",
    ),
    "cede/kube/long_responses.py": (
        "tests/unit/cede_kube/test_client.py",
        "pages of large objects are read there, and long lines in test_client_watches.py",
    ),
    "cede/kube/failures.py": (
        "tests/unit/cede_cli/commands/test_connection.py",
        "every refusal of the API server is met there by a command",
    ),
    "scheduler/snapshot/kinds.py": (
        "tests/unit/scheduler/test_controller.py",
        "a table; the controller reads all of its kinds there",
    ),
    "whatif/answer.py": (
        "tests/unit/whatif/test_questions.py",
        "values, and the text of test_main.py",
    ),
    "whatif/assumptions.py": (
        "tests/unit/whatif/test_questions.py",
        "sentences; when each is printed is checked there",
    ),
    "whatif/changes.py": (
        "tests/unit/whatif/test_questions.py",
        "a value; every effect happens there",
    ),
    "whatif/draining.py": (
        "tests/unit/whatif/test_questions.py",
        "nodes are drained there, with and without room elsewhere",
    ),
    "whatif/live.py": (
        "tests/unit/whatif/test_main.py",
        "a cluster behind real HTTP is read there",
    ),
    "whatif/placing.py": (
        "tests/unit/whatif/test_questions.py",
        "pods that find a node, and that find none, are there",
    ),
    "whatif/quota.py": (
        "tests/unit/whatif/test_questions.py",
        "allocations are applied and nodes drained there",
    ),
    "whatif/teams.py": (
        "tests/unit/whatif/test_questions.py",
        "the figures of teams are compared there",
    ),
    "whatif/world.py": (
        "tests/unit/whatif/test_passes.py",
        "the objects that all effects change; in any cluster there",
    ),
}
"""Module → (test file, why it has none of its own)."""
