# Each target does its own set-up. YES=1 installs missing Debian packages without asking.
.DEFAULT_GOAL := help
.PHONY: help chaos demo matrix test test-fast test-long test-oldest test-pythons
.PHONY: test-browser test-integrations test-machine sbom lint fmt up down lock
.PHONY: bench bench-levels bench-runtime bench-scheduler
SHELL := /bin/bash
PYTHON_ := .venv/bin/python
LOCAL := $(PYTHON_) -m deploy.local
CLUSTER ?= local
CACHE := $${XDG_CACHE_HOME:-$$HOME/.cache}/cede
UV := $(CACHE)/uv/bin/uv
OLDEST := $(CACHE)/torch-2.13
INTEGRATIONS := $(CACHE)/integrations
# Workers of pytest: one runs the tests of the cluster, the other the unit tests. Those of real
# training processes come afterwards: beside the cluster's, both starve.
WORKERS ?= 2
# A test that hangs shows its stacks, ends its worker and is a failure: the others go on.
PYTEST := $(PYTHON_) -m pytest -q -n $(WORKERS) --durations=15 \
	-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

demo:  ## a take-back on a real cluster; leaves demo.json and pictures (CLUSTER=kind: with Docker)
	@deploy/demo.sh $(CLUSTER)

test: setup-cluster setup-browser lint  ## the tests, on the local cluster too; removes its teams
	@$(LOCAL) up
	@$(PYTEST) -m "not processes"; code=$$?; \
		$(PYTEST) -m processes --ignore=tests/frameworks || code=$$?; \
		exit $$code

test-browser: setup-browser  ## the page of `cede dashboard` in headless Chromium (0.6 GB)
	@$(PYTHON_) -m pytest -q tests/unit/cede_cli/dashboard

FAST := -m pytest -q -m "not cluster and not gpu and not processes and not slow"
test-fast: setup-python  ## the quick tests; those of elastic_runtime run beside the others
	@$(PYTHON_) $(FAST) tests/unit/elastic_runtime & \
		$(PYTHON_) $(FAST) tests/laws tests/unit --ignore=tests/unit/elastic_runtime; \
		code=$$?; wait $$! && exit $$code

test-long: setup-cluster  ## endurance: trading and faults, 500 resizes with kills; 5 h
	@CEDE_KINDS=1 $(MAKE) test-integrations
	@CEDE_KINDS=1 $(PYTHON_) -m pytest -q tests/processes tests/unit/scheduler tests/unit/webhook \
		tests/unit/elastic_runtime/training
	@$(LOCAL) up
	@CEDE_KINDS=1 CEDE_QUIET_SECONDS=300 $(PYTHON_) -m pytest -q tests/integration -k quiet_cluster
	@CEDE_KINDS=1 CEDE_RESERVATIONS=20 $(PYTHON_) -m pytest -q -s \
		tests/integration/test_reservation.py
	@CEDE_KINDS=1 CEDE_RESERVATIONS=20 CEDE_FAIR_SHARING=off $(PYTHON_) -m pytest -q -s \
		tests/integration/test_reservation.py
	@CEDE_KINDS=1 $(PYTHON_) -m pytest -q tests/integration/test_comeback.py \
		tests/integration/test_ledger.py tests/integration/test_deployed_ledger.py \
		tests/integration/test_explained_causes.py \
		tests/integration/test_governance_change.py tests/integration/test_governance_failure.py \
		tests/integration/test_governance_sharing.py tests/integration/test_accelerators_policy.py \
		tests/integration/test_raw_elastic.py tests/integration/test_governance_gang.py \
		tests/integration/test_whatif.py tests/integration/test_overlays.py \
		tests/integration/test_webhook_certificates.py \
		tests/integration/test_quota_controller.py \
		tests/e2e/test_requested_saves.py tests/e2e/test_gentle_stop.py \
		tests/e2e/test_surplus.py tests/e2e/test_injected_runtime.py \
		tests/e2e/test_servers.py tests/e2e/test_monitoring.py tests/e2e/test_alerts.py \
		tests/e2e/test_examples.py tests/e2e/test_restart.py \
		tests/e2e/test_cession.py tests/e2e/test_comeback.py tests/e2e/test_growth.py \
		tests/e2e/test_late_pods.py tests/e2e/test_upgrade.py \
		tests/e2e/test_local_cluster.py
	@CEDE_KINDS=1 CEDE_LONG_FAULTS=1 $(PYTHON_) -m pytest -q tests/integration/test_guard_faults.py \
		tests/e2e/test_missing_pods.py tests/e2e/test_succession.py
	@CEDE_CHAOS_SECONDS=3600 $(PYTHON_) -m pytest -q -s tests/e2e/test_trading.py
	@$(PYTHON_) -m tests.harness.random_world 0 10000
	@$(PYTHON_) -m tests.harness.forecasts 0 200
	@CEDE_KINDS=1 CEDE_RESIZES=500 $(PYTHON_) -m pytest -q -s \
		tests/processes/test_random_faults.py
	@$(PYTHON_) -m pytest -q -n 2 --hypothesis-profile=long \
		-m "not cluster and not gpu and not processes"

MINUTES ?= 10
SEED ?= 1
chaos: setup-cluster  ## teams trade while all fails; leaves chaos-SEED.jsonl (MINUTES= SEED=)
	@$(LOCAL) up
	@rm -f chaos-$(SEED).jsonl
	@CEDE_CHAOS_SECONDS=$$((60 * $(MINUTES))) CEDE_CHAOS_SEED=$(SEED) \
		CEDE_CHAOS_REPORT=chaos-$(SEED).jsonl $(PYTHON_) -m pytest -q -s tests/e2e/test_trading.py

CELLS ?=
matrix: setup-cluster  ## other versions and gates of Kubernetes and Kueue (CELLS="1.35 1.37")
	@$(PYTHON_) -m tests.matrix $(CELLS)

test-machine: setup-machine  ## the life of a cluster on an ordinary Debian 12, in QEMU (12 GB)
	@$(PYTHON_) -m tests.machine

test-oldest: setup-python  ## elastic_runtime's tests with the oldest torch supported (2 GB)
	@$(UV) venv -q --allow-existing $(OLDEST)
	@$(UV) pip sync -q --python $(OLDEST)/bin/python --require-hashes \
		deploy/locks/oldest.txt
	@CEDE_KINDS=1 $(OLDEST)/bin/python -m pytest -q -n 2 \
		tests/unit/elastic_runtime tests/processes tests/gpu

test-pythons: setup-python  ## elastic_runtime's tests with Python 3.12 to 3.14 (1 GB each)
	@for version in 3.12 3.13 3.14; do \
		$(UV) venv -q --allow-existing --python $$version $(CACHE)/python-$$version || \
			{ echo "Python $$version is not here, and cannot be downloaded: skipped"; continue; }; \
		$(UV) pip sync -q --python $(CACHE)/python-$$version/bin/python --require-hashes \
			deploy/locks/pythons.txt && \
		CEDE_KINDS=1 $(CACHE)/python-$$version/bin/python -m pytest -q -n 2 \
			tests/unit/elastic_runtime tests/processes || exit 1; \
	done

test-integrations: setup-python  ## elastic_runtime beside transformers, lightning and others (3 GB)
	@$(UV) venv -q --allow-existing $(INTEGRATIONS)
	@$(UV) pip sync -q --python $(INTEGRATIONS)/bin/python --require-hashes \
		deploy/locks/integrations.txt
	@$(INTEGRATIONS)/bin/python -m pytest -q --durations=15 tests/frameworks

bench: setup-cluster  ## the webhook and the quota_controller beside a peer; on a quiet machine
	@$(PYTHON_) -m tests.bench.webhook
	@$(PYTHON_) -m tests.bench.quota_controller

bench-levels: setup-cluster  ## what a take-back costs at each level, beside torchrun and a kill
	@$(LOCAL) up
	@$(PYTHON_) -m tests.bench.levels $(ARGS)

bench-runtime: setup-python  ## elastic_runtime beside torchft, NVRx, torchrun and DCP
	@$(PYTHON_) -m tests.bench.runtime $(ARGS)

bench-scheduler: setup-python  ## passes of the scheduler; ARGS="owner rate": on the local cluster
	@$(PYTHON_) -m tests.bench.scheduler $(ARGS)

lint: setup-python  ## ruff, mypy --strict, the import laws
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .
	@.venv/bin/mypy && .venv/bin/lint-imports

fmt: setup-python  ## format the code
	@.venv/bin/ruff check --fix . ; .venv/bin/ruff format .

up: setup-cluster  ## start the local cluster with Kueue and Cede
	@$(LOCAL) up

down:  ## stop the local cluster and its page; only the cache of programs and images is left
	@for config in "$(CACHE)/run/admin.conf" "$$PWD/.venv/kind.conf"; do \
		[ ! -e "$${config%.conf}.page" ] || $(PYTHON_) -m deploy.demo.page "$$config"; done
	@if [ -e $(CACHE)/run ]; then deploy/local/setup.sh python && $(LOCAL) down; fi
	@! command -v kind >/dev/null || ! kind get clusters 2>/dev/null | grep -qx cede || \
		kind delete cluster --name cede

COMPILE := pip compile -q --universal --generate-hashes --no-header --no-annotate
lock: setup-python  ## lock the requirements again, by hashes and without addresses
	@for group in controllers dev oldest pythons integrations; do \
		$(UV) $(COMPILE) --group $$group -o deploy/locks/$$group.txt || exit 1; \
	done
	@echo 'hatchling>=1.27' | $(UV) $(COMPILE) -o deploy/locks/build.txt -
	@echo uv | $(UV) $(COMPILE) -o deploy/locks/tools.txt -

sbom: setup-python  ## what the image of the controllers holds, as CycloneDX
	@$(PYTHON_) -m deploy.sbom

.PHONY: setup-python setup-browser setup-cluster setup-machine
setup-python:
	@deploy/local/setup.sh python
setup-browser:
	@deploy/local/setup.sh browser
setup-cluster:
	@deploy/local/setup.sh cluster
setup-machine:
	@deploy/local/setup.sh machine
