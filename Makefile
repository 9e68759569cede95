# Every target sets up what it needs; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help run setup test faults lint conformance demo bench soak lock clean

PYTEST := .venv/bin/python -m pytest -n 2
PURE_TESTS = $(wildcard tests/unit tests/property tests/wire)
# Minutes of real nodes that are parted, filled up or killed at every step: too long for every day.
FAULT_TESTS = $(wildcard $(addprefix tests/cluster/test_,namespace_*.py *_disk_full.py \
	mirrored_partitions.py mirrored_syncing.py mirrored_lives.py membership_interrupted.py formation_elsewhere.py))

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

run: ## set up and start one node in the foreground: AMQP on 5672, pages on 15672, data in ./var
	@tools/setup run
	@echo "run: one node, data in ./var, for any AMQP client on 127.0.0.1:5672; its pages are on http://127.0.0.1:15672/ (user guest, password guest); Ctrl-C stops it"
	@exec .venv/bin/warren serve --data ./var

setup: ## set up .venv and the compiled core for development, without running anything
	@tools/setup test

test: setup lint ## the suite: lint, the tests on the compiled core, the pure ones again uncompiled; `make faults` has the rest
	@if [ -e build/compiled ]; then \
		WARREN_COMPILED=1 $(PYTEST) $(FAULT_TESTS:%=--ignore=%) && WARREN_COMPILED=0 $(PYTEST) $(PURE_TESTS); \
	else \
		WARREN_COMPILED=0 $(PYTEST) $(FAULT_TESTS:%=--ignore=%); \
	fi

faults: setup ## real nodes in networks that are cut, on disks that fill up, killed in the midst of everything
	$(PYTEST) $(FAULT_TESTS)

lint: ## ruff, mypy --strict and the import contracts
	@tools/setup lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	WARREN_COMPILED=0 .venv/bin/lint-imports

conformance: setup ## public AMQP clients' own integration suites against a node
	conformance/run

demo: setup ## start a node, put it under load for ten seconds and say what it did
	@tools/demo

bench: setup ## measure against RabbitMQ on this machine
	bench/run

soak: setup ## the long runs: ten million mutated frames, ten thousand simulated worlds, five hundred kills, cut networks
	bench/fuzz
	bench/seeds
	bench/kills
	bench/cuts

lock: ## resolve the newest dependencies and write requirements/*.txt (needs uv)
	tools/lock

clean: ## remove .venv, build products and caches; data in ./var stays
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
