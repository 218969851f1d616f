# Each target does its own set-up. YES=1 installs missing Debian packages without asking.
.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-oldest bench bench-runtime lint fmt up down lock
SHELL := /bin/bash
PYTHON_ := .venv/bin/python
LOCAL := $(PYTHON_) -m deploy.local
CLUSTER ?= local
UV := $${XDG_CACHE_HOME:-$$HOME/.cache}/cede/uv/bin/uv
OLDEST := $${XDG_CACHE_HOME:-$$HOME/.cache}/cede/torch-2.13

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo:  ## a real cluster here, Kueue, Cede, and the story; leaves demo.json and demo.png (CLUSTER=kind: with Docker)
	@deploy/demo.sh $(CLUSTER)

test: setup-cluster lint  ## every test, on the cluster too; teams that are there (of `make demo`) are removed
	@$(LOCAL) up
	@$(PYTHON_) -m pytest -q --durations=15

test-fast: setup-python  ## what needs neither cluster nor training processes, in under a minute
	@$(PYTHON_) -m pytest -q -m "not cluster and not gpu and not processes"

test-oldest: setup-python  ## elastic_runtime's tests with the oldest torch it supports, in an environment of its own (2 GB to fetch)
	@$(UV) venv -q --allow-existing $(OLDEST)
	@$(UV) pip install -q --python $(OLDEST)/bin/python 'torch==2.13.*' numpy pytest pytest-asyncio pytest-aiohttp hypothesis
	@$(OLDEST)/bin/python -m pytest -q --durations=5 tests/unit/elastic_runtime tests/processes tests/gpu

bench: setup-cluster  ## what is promised, measured beside a peer; on a quiet machine, n = 5, median and spread
	@$(PYTHON_) -m tests.bench.webhook
	@$(PYTHON_) -m tests.bench.quota_controller

bench-runtime: setup-python  ## what elastic_runtime promises, beside torchft, NVRx, torchrun and DCP; leaves bench-runtime.json
	@$(PYTHON_) -m tests.bench.runtime $(ARGS)

lint: setup-python  ## ruff, mypy --strict, the import laws
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports

fmt: setup-python  ## put the code into shape
	@.venv/bin/ruff check --fix . ; .venv/bin/ruff format .

up: setup-cluster  ## the cluster with Kueue and Cede
	@$(LOCAL) up

down:  ## end the cluster; nothing is left behind but the cache of programs and images
	@if [ -e $${XDG_CACHE_HOME:-$$HOME/.cache}/cede/run ]; then deploy/local/setup.sh python && $(LOCAL) down; fi
	@! command -v kind >/dev/null || ! kind get clusters 2>/dev/null | grep -qx cede || kind delete cluster --name cede

lock: setup-python  ## lock the requirements anew, by hashes and without addresses
	@$(UV) pip compile -q --universal --generate-hashes --no-header --no-annotate --group controllers -o deploy/locks/controllers.txt
	@$(UV) pip compile -q --universal --generate-hashes --no-header --no-annotate --group dev -o deploy/locks/dev.txt
	@echo 'hatchling>=1.27' | $(UV) pip compile -q --universal --generate-hashes --no-header --no-annotate -o deploy/locks/build.txt -

.PHONY: setup-python setup-cluster
setup-python:
	@deploy/local/setup.sh python
setup-cluster:
	@deploy/local/setup.sh cluster
