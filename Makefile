# Every target sets up what it needs; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help run setup test test-fast lint conformance bench soak lock clean

WITHOUT_COMPILED := WARREN_COMPILED=0
PYTEST := .venv/bin/python -m pytest -q -n 2

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

run: ## set up and start one node in the foreground: AMQP on 5672, data in ./var
	@tools/setup run
	@exec .venv/bin/warren serve --data ./var

setup: ## set up .venv and the compiled core for development, without running anything
	@tools/setup test

test: setup lint ## the whole suite: lint, every test on the compiled core, the pure tests again uncompiled
	$(PYTEST)
	$(WITHOUT_COMPILED) $(PYTEST) $(wildcard tests/unit tests/property tests/wire)

test-fast: setup ## the pure tests only, on the compiled core
	$(PYTEST) $(wildcard tests/architecture tests/unit tests/property)

lint: setup ## ruff, mypy --strict and the import contracts
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(WITHOUT_COMPILED) .venv/bin/lint-imports

conformance: setup ## public AMQP clients' own integration suites against a node
	conformance/run

bench: setup ## measure against RabbitMQ on this machine
	bench/run

soak: setup ## the long runs: ten million mutated frames
	bench/fuzz

lock: ## resolve the newest dependencies and write requirements/*.txt (needs uv)
	tools/lock

clean: ## remove .venv, build products and caches; data in ./var stays
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
