# Everything that one does with this checkout. `make help` lists it. Needs Python 3.11+ and make, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# The first interpreter that is new enough; `make PYTHON=/path/to/python3 setup` chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
EXTRAS ?= fast,xpath,pkcs12,spark,zookeeper,postgresql,zeroconf,console,telemetry,test,dev
SEEDS ?= 200
SECONDS_FUZZING ?= 30
ROUNDS ?= 200
PAIR_ROUNDS ?= 100
MIXED_ROUNDS ?= 30
COPY_ROUNDS ?= 100
COPY_SEED ?= 1
MINUTES ?= 10
NETWORK ?= all
MODE ?= alone
AUDIT ?= default

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
CONSTRAINTS := requirements/constraints.txt
STAMPS := $(VENV)/stamps
# Images of containers often set this. A run starts thousands of processes, and each would compile what is not native
# again: a broker starts in 0.14 s of processor time instead of 0.31, and tests are collected in 6 s instead of 27.
unexport PYTHONDONTWRITEBYTECODE
# Programs run on the compiled build where there is one; without a compiler build/compiled is a plain copy.
COMPILED := PYTHONPATH=$(CURDIR)/build/compiled

.PHONY: help setup compiled test test-plain test-compiled check static lint format types contracts generated \
	generated-check sim bench bench-core bench-clusters bench-replication bench-mqtt bench-amqp bench-pipeline bench-archive bench-audit bench-console console-soak interop core-clients amqp-clients amqp-mirrors demo kill kill-copies part-copies chaos soak wheel cluster-rounds kubernetes-check pipeline-archives pipeline-extras pipeline-early pipeline-plan pipeline-soak pipeline-clusters pipeline-versions pipeline-lakes fuzz docs constraints clean distclean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

$(STAMPS)/venv:
	@test -n "$(PYTHON)" || { echo "entrepot needs Python 3.11 or newer, and none was found on the PATH."; \
		echo "Install one, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(PY) || { echo "creating $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); } \
		|| { rm -rf $(VENV); echo "$(PYTHON) cannot create a virtual environment (Debian: the package python3-venv)."; exit 2; }
	@mkdir -p $(STAMPS)
	@touch $@

# In three steps, so that the compiler, and the story of the demo, need not wait for the download of Spark.
INSTALL := ENTREPOT_PURE=1 $(PIP) install --constraint $(CONSTRAINTS) --no-build-isolation --editable

# Built from source. Where cffi is not there before, it comes out without its library, and pip keeps it so for ever.
PROTON := --no-build-isolation --no-deps --force-reinstall --no-cache-dir python-qpid-proton

$(STAMPS)/packages-story: $(STAMPS)/venv pyproject.toml $(CONSTRAINTS)
	@$(PIP) install --constraint $(CONSTRAINTS) setuptools
	@$(INSTALL) . stomp.py
	@touch $@

$(STAMPS)/packages-compiler: $(STAMPS)/packages-story
	@$(INSTALL) '.[dev]'
	@touch $@

$(STAMPS)/packages-$(EXTRAS): $(STAMPS)/packages-compiler
	@echo "installing the pinned packages ($(EXTRAS))"
	@$(INSTALL) '.[$(EXTRAS)]'
	@mkdir -p build
	@$(PIP) install --constraint $(CONSTRAINTS) cffi
	@$(PY) -c 'import proton' 2>/dev/null || $(PIP) install --constraint $(CONSTRAINTS) $(PROTON) 2>build/proton.log \
		|| echo "Qpid Proton was not built (build/proton.log; it takes gcc and libssl-dev): what needs it will be skipped"
	@touch '$@'

setup: ## make .venv with the pinned packages, and the compiled build
	@$(MAKE) --no-print-directory --jobs=2 $(STAMPS)/packages-$(EXTRAS) compiled

compiled: $(STAMPS)/packages-compiler ## bring build/compiled up to date (does nothing when it is)
	@$(PY) tools/compiled_build.py --launcher

# The compiler works on one core while the plain tests run on another.
test: $(STAMPS)/packages-compiler ## units of what is compiled on the plain build, then every test on the compiled one
	@$(PY) tools/compiled_build.py --launcher & compiling=$$!; passed=yes; \
		$(MAKE) --no-print-directory $(STAMPS)/packages-$(EXTRAS) && $(PY) tools/run_tests.py plain || passed=no; \
		wait $$compiling && test $$passed = yes
	@$(PY) tools/run_tests.py compiled

wheel: setup ## a wheel with the compiled modules for this interpreter, and a pure one, in dist/
	@$(PY) tools/wheels.py

test-plain: $(STAMPS)/packages-$(EXTRAS) ## run the tests on the plain build; ARGS="tests/unit -k word" for some
	@$(PY) tools/run_tests.py plain $(ARGS)

test-compiled: setup ## run the tests on the compiled build; ARGS as above
	@$(PY) tools/run_tests.py compiled $(ARGS)

# What reads sources alone, two at a time.
static: $(STAMPS)/packages-$(EXTRAS)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types contracts generated-check

check: setup static ## everything that must hold before a change goes in
	@$(PY) tools/run_tests.py plain --unless-passed
	@$(PY) tools/run_tests.py compiled --unless-passed

lint: $(STAMPS)/packages-$(EXTRAS) ## ruff: rules and format
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

format: $(STAMPS)/packages-$(EXTRAS) ## let ruff repair and format what it can
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

types: $(STAMPS)/packages-$(EXTRAS) ## mypy --strict
	$(VENV)/bin/mypy --strict

contracts: $(STAMPS)/packages-$(EXTRAS) ## import-linter: who may import whom
	PYTHONPATH=src $(VENV)/bin/lint-imports

generated: $(STAMPS)/packages-$(EXTRAS) ## rewrite the pages that are read off the source
	$(PY) tools/generated_pages.py
	$(PY) tools/blocking_client.py

generated-check: $(STAMPS)/packages-$(EXTRAS)
	$(PY) tools/generated_pages.py --check
	$(PY) tools/blocking_client.py --check

sim: setup ## run simulated worlds; SEEDS=200
	$(COMPILED) $(PY) -m entrepot.simulation --seeds $(SEEDS) $(ARGS)

install-whole: setup ## have pip compile everything from nothing in an environment of its own (takes minutes)
	@ENTREPOT_WHOLE_INSTALL=yes $(PY) tools/run_tests.py compiled tests/shell/test_install.py $(ARGS)

bench: setup ## measure, beside ActiveMQ Classic where it is installed; ARGS="..."
	$(COMPILED) $(PY) bench/run.py $(ARGS)

bench-core: setup ## measure CORE beside a real Artemis from Maven; ARGS="..."
	$(COMPILED) $(PY) bench/core.py $(ARGS)

bench-clusters: setup ## measure clusters beside real Artemis nodes from Maven; ARGS="..."
	$(COMPILED) $(PY) bench/clusters.py $(ARGS)

bench-amqp: setup ## measure AMQP 1.0 beside a real Artemis from Maven; ARGS="..."
	$(COMPILED) $(PY) bench/amqp.py $(ARGS)

bench-replication: setup ## measure a replicated pair beside one of real Artemis brokers; ARGS="..."
	$(COMPILED) $(PY) bench/replication.py $(ARGS)

bench-mqtt: setup ## measure MQTT beside Mosquitto; ARGS="..."
	$(COMPILED) $(PY) bench/mqtt.py $(ARGS)

bench-pipeline: setup ## measure the PySpark source and sink; ARGS="..."
	$(COMPILED) $(PY) bench/pipeline.py $(ARGS)

bench-console: setup ## measure what a console with ten pages in a real browser costs; ARGS="..."
	$(COMPILED) $(PY) bench/console.py $(ARGS)

bench-archive: setup ## measure an archive of 2 million messages, compacted: too much memory is a failure; ARGS="--messages 200000"
	$(COMPILED) $(PY) bench/archive.py $(ARGS)

bench-audit: setup ## measure audits of 1, 3 and 10 million records; ARGS="..."
	$(COMPILED) $(PY) bench/audit.py $(ARGS)

interop: setup ## test against programs that others wrote, and what a real Artemis shows against its recordings
	@ENTREPOT_RECORDINGS=live $(PY) tools/run_tests.py compiled tests/interop $(ARGS)

RECORDED := $(addprefix tests/interop/test_,core_client.py amqp_client.py artemis_cli.py jolokia_clients.py hawtio.py)
.PHONY: recordings install-whole
recordings: setup ## record anew what a real Artemis shows, where programs or versions have changed
	@ENTREPOT_RECORDINGS=write $(PY) tools/run_tests.py compiled $(RECORDED) $(ARGS)

core-clients: setup ## test CORE against six versions of Artemis' clients instead of two (takes minutes)
	@ENTREPOT_CORE_CLIENTS=all $(PY) tools/run_tests.py compiled tests/interop/test_core_client.py $(ARGS)

amqp-clients: setup ## test AMQP with every feature of Qpid JMS, and across languages (takes minutes)
	@ENTREPOT_AMQP_CLIENTS=all $(PY) tools/run_tests.py compiled tests/interop/test_amqp_client.py $(ARGS)

amqp-mirrors: setup ## test mirrors over AMQP in every direction, with a real Artemis (takes minutes)
	@ENTREPOT_AMQP_MIRRORS=all $(PY) tools/run_tests.py compiled tests/interop/test_amqp_mirrors.py $(ARGS)

# The story begins on what is ready, while Spark is fetched and the rest compiled; its last chapter needs both.
demo: $(STAMPS)/packages-story ## three brokers, real clients, three kills, a short story; leaves nothing behind
	@mkdir -p build
	@$(MAKE) --no-print-directory setup >build/setup.log 2>&1 & setting_up=$$!; passed=yes; \
		PYTHONPATH=$$($(PY) tools/source_tree.py) $(PY) demo/run.py story $(ARGS) || passed=no; \
		kill -0 $$setting_up 2>/dev/null && echo "the last chapter waits for Spark and the compiler (build/setup.log)"; \
		wait $$setting_up || { cat build/setup.log; exit 2; }; \
		$(COMPILED) $(PY) demo/run.py landing $(ARGS) && test $$passed = yes

pipeline-soak: setup ## kill drivers, workers and brokers under the pipeline; ROUNDS=200 MODE=alone|pair|nodes|classic|drawn|artemis|land|land-artemis
	ENTREPOT_PATIENCE=150 $(COMPILED) $(PY) tests/spark/soak.py --rounds $(ROUNDS) --mode $(MODE) $(ARGS)

pipeline-early: setup ## who settles before the result is safe must be found, whatever is behind the queries; ENTREPOT_SOAK_MODES=nodes,land
	@ENTREPOT_PATIENCE=150 ENTREPOT_SOAK_MODES=$${ENTREPOT_SOAK_MODES:-all} $(PY) tools/run_tests.py compiled tests/spark/test_spark_soak.py -s \
		-k finds $(ARGS)

pipeline-plan: setup ## the plan of a cluster against a cluster that does it, within 20 %; PLAN_SECONDS=60 on a machine that does little else
	@ENTREPOT_PATIENCE=150 ENTREPOT_PLAN_SECONDS=$${PLAN_SECONDS:-20} $(PY) tools/run_tests.py compiled \
		tests/spark/test_plan_of_clusters.py -s $(ARGS)

$(STAMPS)/archive: $(STAMPS)/venv ## an environment for executors that have none, packed
	@python3 -m venv build/environment
	@ENTREPOT_PURE=1 build/environment/bin/pip install --quiet . pyarrow 'pandas>=2.2,<3' setuptools venv-pack
	@build/environment/bin/venv-pack --quiet --force --prefix build/environment --output build/environment.tar.gz
	@touch $@

pipeline-archives: setup $(STAMPS)/archive ## the pipeline on executors that get the package by --archives
	@ENTREPOT_ARCHIVE=$(CURDIR)/build/environment.tar.gz \
		$(PY) tools/run_tests.py compiled tests/spark/test_spark_archives.py -s $(ARGS)

pipeline-clusters: setup ## the same on local-cluster and under a standalone master with two workers; ROUNDS=200
	@ENTREPOT_CLUSTER_ROUNDS=$(ROUNDS) $(PY) tools/run_tests.py compiled tests/spark/test_spark_clusters.py -s $(ARGS)

$(STAMPS)/spark-%: ## a Python with another PySpark
	@python3 -m venv build/spark-$*
	@build/spark-$*/bin/pip install --quiet 'pyspark==$*.*' 'pandas<3' pyarrow 'protobuf>=6.33.5' \
		click rich msgspec h11 prometheus-client mypy_extensions librt==0.16.0 pytest pytest-timeout pytest-xdist pytest-rerunfailures hypothesis
	@touch $@

pipeline-versions: setup $(STAMPS)/spark-4.1 $(STAMPS)/spark-4.0 ## the pipeline under PySpark 4.1, and 4.0 refused
	@ENTREPOT_PYTHON_SPARK41=$(CURDIR)/build/spark-4.1/bin/python ENTREPOT_PYTHON_SPARK40=$(CURDIR)/build/spark-4.0/bin/python \
		$(PY) tools/run_tests.py plain tests/spark/test_spark_versions.py $(ARGS)

pipeline-lakes: setup $(STAMPS)/spark-4.1 ## Delta and Iceberg through killed drivers, and Avro; minutes, and a PySpark that has all three
	@ENTREPOT_PYTHON_SPARK41=$(CURDIR)/build/spark-4.1/bin/python \
		$(PY) tools/run_tests.py plain tests/spark/test_spark_lakes.py tests/spark/test_guide_of_recipes.py -s $(ARGS)

$(STAMPS)/extras: ## a Python with Airflow and OpenLineage's library
	@python3 -m venv build/extras
	@ENTREPOT_PURE=1 build/extras/bin/pip install --quiet '.[lineage]' 'apache-airflow>=3.0' prometheus-client pytest pytest-timeout
	@touch $@

pipeline-extras: setup $(STAMPS)/extras ## the operator and the sensor in a real Airflow, and lineage by OpenLineage's library
	@PYTHONPATH=src:tests ENTREPOT_PYTHON_SPARK=$(CURDIR)/$(PY) build/extras/bin/python -m pytest -q --noconftest \
		-o addopts= tests/unit/pipeline/test_lineage.py tests/spark/test_airflow.py $(ARGS)

$(STAMPS)/kubernetes: ## a Python with the schemas of Kubernetes
	@python3 -m venv build/kubernetes
	@ENTREPOT_PURE=1 build/kubernetes/bin/pip install --quiet . kubernetes-validate pytest prometheus-client
	@touch $@

kubernetes-check: $(STAMPS)/kubernetes ## the manifest of docs/landing.md against the schemas of Kubernetes
	@PYTHONPATH=src:tests build/kubernetes/bin/python -m pytest -q --noconftest -o addopts= tests/unit/pipeline/test_kubernetes.py

kill: setup ## kill -9 a broker under load; ROUNDS=200
	@ENTREPOT_KILL_ROUNDS=$(ROUNDS) $(PY) tools/run_tests.py compiled tests/shell/test_kill.py -s $(ARGS)

kill-copies: setup ## kill -9 and SIGSTOP of replicated pairs under load, and failback; PAIR_ROUNDS=100
	@PAIR_ROUNDS=$(PAIR_ROUNDS) $(PY) tools/run_tests.py compiled tests/shell/test_replication.py \
		-k "kill_9 or stands_still or has_its_store_back" $(ARGS)

cluster-rounds: ROUNDS = 100
cluster-rounds: setup ## kill and cut off nodes of clusters under load, beside real Artemis too; ROUNDS=100 MIXED_ROUNDS=30
	@ENTREPOT_CLUSTER_ROUNDS=$(ROUNDS) ENTREPOT_MIXED_ROUNDS=$(MIXED_ROUNDS) \
		$(PY) tools/run_tests.py compiled tests/interop/test_cluster_rounds.py -s $(ARGS)

part-copies: setup ## replicated pairs in namespaces: kill -9, SIGSTOP, cut links, full disks, all clients; as root, COPY_ROUNDS=100 COPY_SEED=1
	@COPY_ROUNDS=$(COPY_ROUNDS) COPY_SEED=$(COPY_SEED) $(PY) tools/run_tests.py compiled tests/interop/test_copies_rounds.py -s $(ARGS)

chaos: setup ## storms over real clusters; MINUTES=10 NETWORK=ring|hub|mesh|all AUDIT=default|on|off|all
	$(COMPILED) $(PY) tests/shell/chaos.py --minutes $(MINUTES) --network $(NETWORK) --audit $(AUDIT) $(ARGS)

soak: setup ## an hour of storms over a mesh: crashes, SIGTERM, cuts; nothing may be lost or stay
	$(COMPILED) $(PY) tests/shell/chaos.py --minutes 60 --network mesh --audit default $(ARGS)

console-soak: setup ## ten pages live in a real browser while messages flow: nothing may grow; MINUTES=10
	$(COMPILED) $(PY) tests/shell/console_soak.py --minutes $(MINUTES) $(ARGS)

fuzz: $(STAMPS)/packages-$(EXTRAS) ## fuzz every decoder; SECONDS_FUZZING=30 for each
	@PYTHONPATH=src $(PY) tests/fuzz/run.py --seconds $(SECONDS_FUZZING) $(ARGS)

$(STAMPS)/docs: $(STAMPS)/packages-$(EXTRAS)
	@ENTREPOT_PURE=1 $(PIP) install --constraint $(CONSTRAINTS) --no-build-isolation --editable '.[docs]'
	@touch $@

docs: $(STAMPS)/docs generated ## build the documentation into build/docs/index.html
	$(VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs
	@echo "build/docs/index.html"

constraints: $(STAMPS)/venv ## pin the newest versions that fit pyproject.toml
	@$(PIP) install uv
	@{ sed '/^#/!Q' $(CONSTRAINTS); $(VENV)/bin/uv pip compile pyproject.toml --all-extras --universal \
		--python-version 3.11 --upgrade --no-header --no-annotate --quiet; } > $(CONSTRAINTS).new
	@mv $(CONSTRAINTS).new $(CONSTRAINTS)

clean: ## remove what was built, but not .venv
	rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
	find src tests tools bench demo -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove .venv too
	rm -rf $(VENV)
