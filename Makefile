# Every target sets up what it needs; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help run setup test checks faults lint conformance demo bench soak lock clean

PYTEST := .venv/bin/python -m pytest
# What real nodes are put through is mostly waited for: twice as many workers as two cores have enough to do. A file's
# tests stay together, and share their nodes; the files that take longest come first (conftest.py).
TOGETHER := --dist loadfile --no-loadscope-reorder
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

test: ## the suite: lint, the pure tests uncompiled, all tests on the compiled core; `make faults` has the rest
	@tools/setup tools
	@$(MAKE) --no-print-directory -j 2 setup checks
	@if [ -e build/compiled ]; then \
		WARREN_COMPILED=1 $(PYTEST) -n 4 $(TOGETHER) $(FAULT_TESTS:%=--ignore=%); \
	else \
		WARREN_COMPILED=0 $(PYTEST) -n 4 $(TOGETHER) $(FAULT_TESTS:%=--ignore=%) $(PURE_TESTS:%=--ignore=%); \
	fi

# The compiler of the core has one core to itself for minutes; this is for the other.
checks: lint
	WARREN_COMPILED=0 $(PYTEST) -n 2 $(TOGETHER) $(PURE_TESTS)

faults: setup ## real nodes in networks that are cut, on disks that fill up, killed in the midst of everything
	$(PYTEST) -n 2 $(TOGETHER) $(FAULT_TESTS)

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

soak: setup ## the long runs: ten million mutated frames, ten thousand simulated worlds, five hundred kills, cut networks, new examples
	bench/fuzz
	bench/seeds
	bench/kills
	bench/cuts
	WARREN_COMPILED=0 $(PYTEST) -n 2 $(TOGETHER) --hypothesis-profile=by_chance tests/property

lock: ## resolve the newest dependencies and write requirements/*.txt (needs uv)
	tools/lock

clean: ## remove .venv, build products and caches; data in ./var stays
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
