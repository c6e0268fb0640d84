# Tidegate: `make run` shows it, `make test` proves it. `make help` lists the rest.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-e2e smoke bench soak-limits soak-streams check helm-check install install-node install-clients clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 18

install: $(VENV)/.installed ## Install the gateway and its tools into .venv

$(VENV)/.installed: pyproject.toml requirements/gateway.txt requirements/dev.txt
	@echo "installing the gateway into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -r requirements/gateway.txt -r requirements/dev.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

install-node: install ## Install the private node's own environment (CPU build of vLLM) into .venv-node
	@PYTHON="$(PYTHON)" sh private_node/install_cpu.sh

install-clients: tests/clients/node/node_modules/.installed ## Install the Node client that tests use

tests/clients/node/node_modules/.installed: tests/clients/node/package.json tests/clients/node/package-lock.json tests/clients/node/.npmrc $(VENV)/.installed
	@echo "installing the Node client for tests ..."
	@cd tests/clients/node && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --loglevel=error >/dev/null
	@touch $@

run: install install-node ## Start Valkey, the private node and the gateway; print a request to paste
	@$(BIN)/tidegate up

test: install install-node install-clients ## Run the whole suite, the real vLLM node included
	@$(BIN)/python -m tests.run

test-fast: install install-clients ## Run everything that needs no vLLM
	@$(BIN)/pytest -n 2 -m "not e2e"

test-e2e: install install-node install-clients ## Run only the tests with the real vLLM node
	@$(BIN)/pytest -m e2e

smoke: install ## Twelve and more requests through every stage with stand-ins, in seconds
	@$(BIN)/python -m tests.smoke

bench: install ## CPU per request with full protection; writes bench-results.json
	@$(BIN)/python -m tests.bench.run

soak-streams: install ## Does memory grow with streams? 20,000 of them, about two minutes
	@$(BIN)/python -m tests.bench.streams

soak-limits: install ## 64 clients against one limit, through gateways that are killed; SECONDS=25
	@$(BIN)/python -m tests.soak_limits --seconds $(or $(SECONDS),25)

check: install ## Lint, types and architecture
	@$(BIN)/ruff check gateway private_node tests docs
	@$(BIN)/ruff format --check gateway private_node tests docs/*.py
	@$(BIN)/mypy
	@$(BIN)/lint-imports

helm-check: install ## Lint, render and validate the Helm chart under Helm 3 and 4
	@$(BIN)/python -m tests.helm_check

clean: ## Remove environments, caches and local state
	rm -rf $(VENV) .venv-node .cache var tests/clients/node/node_modules bench-results.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
