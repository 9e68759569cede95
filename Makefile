# Each target first installs the things it needs. `make` alone lists the targets.
.DEFAULT_GOAL := help
.PHONY: help run setup quick test test-all rest faults lint conformance demo bank bench soak lock sbom clean

PYTEST := .venv/bin/python -m pytest
# The tests start thousands of nodes and commands. With bytecode files, a start does not parse 300 modules again.
export PYTHONDONTWRITEBYTECODE :=
# One worker runs all tests of a file, because they share nodes. conftest.py puts the folders with the longest tests
# first. Tests with real nodes mostly wait: five workers keep two cores busy.
TOGETHER := --dist loadfile --no-loadscope-reorder
PURE_TESTS = $(wildcard tests/unit tests/property tests/wire)
# `make quick` runs tests that need no node, no system package and no compiler. It leaves out the tests that conftest.py
# marks as slow or lengthy, and the tests of Spark, which need its packages. The hypothesis profile `quick` tries ten
# examples of each property instead of a hundred.
QUICK_TESTS = $(wildcard tests/unit tests/property tests/architecture tests/simulation)
QUICK = -m "not slow and not lengthy" --hypothesis-profile=quick $(addprefix --ignore=,$(shell find tests/unit -name spark -o -name pipeline) tests/property/test_reconcile.py)
# The tests of Spark run once, with the uncompiled core: a compiled core does not change their result.
SPARK_TESTS = $(wildcard tests/spark tests/pipeline)
# Only `make faults` runs these. They take minutes: real nodes with cut networks, full disks, or kills at every step.
FAULT_TESTS = $(wildcard $(addprefix tests/cluster/test_,namespace_*.py *_disk_full.py \
	mirrored_partitions.py mirrored_matrix.py mirrored_syncing.py mirrored_lives.py membership_interrupted.py membership_addresses.py \
	formation_elsewhere.py bank.py) \
	$(addprefix tests/ha/test_,front_door.py virtual_address.py service.py check_cluster.py firewall.py) \
	$(addprefix tests/migrating/test_,switching.py other_consumers.py gone_queues.py contents.py) \
	tests/bridges/federation/test_federated_brokers.py tests/bridges/federation/test_links_cut.py \
	tests/bridges/shovels/test_shovelled_brokers.py tests/cluster/test_bridges.py tests/cluster/test_federation.py \
	tests/spark/test_*_kills.py tests/spark/test_sink_failover.py tests/spark/test_stream_cluster.py \
	tests/pipeline/test_*_kills.py tests/pipeline/test_cluster_jobs.py tests/pipeline/test_demo.py)

# These tests kill client programs many times. `make test-all` runs them with Warren, `make faults` with RabbitMQ.
RABBITMQ_TESTS = $(wildcard $(addprefix tests/client/test_,outbox_kills.py inbox_kills.py))

# Only `make faults` runs these slow tests. The other tests of their files are quick.
FAULT_CASES = tests/cluster/test_bank_books.py::test_a_cent_that_moved_from_one_operation_to_another_is_found_by_the_reconciliation \
	tests/simulation/replica_sets/test_schedules.py::test_every_rule_holds_in_every_schedule_of_more_faults \
	tests/cluster/test_formation.py::test_founding_that_is_killed_at_any_step_loses_nothing \
	tests/cluster/test_formation.py::test_joining_that_is_killed_at_any_step_leaves_a_node_alone_or_a_member
SPARK_CASES = $(foreach page,spark pipeline,\
	tests/docs/test_examples.py::test_every_example_does_what_its_page_says[docs/$(page).md])

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

run: ## set up and start one node in the foreground: AMQP on 5672, pages on 15672, data in ./var
	@tools/setup run
	@echo "run: one node, data in ./var, for any AMQP client on 127.0.0.1:5672; its pages are on http://127.0.0.1:15672/ (user guest, password guest); Ctrl-C stops it"
	@exec .venv/bin/warren serve --data ./var

setup: ## set up .venv and the compiled core for development, without running anything
	@tools/setup test

quick: ## after every edit, under a minute: pure tests of the uncompiled core, with few examples of each property
	@tools/setup quick
	WARREN_COMPILED=0 $(PYTEST) -q -n 2 $(TOGETHER) $(QUICK) $(QUICK_TESTS)

SUITE = compiled=$$([ -e build/compiled ] && echo 1 || echo 0); \
	WARREN_COMPILED=$$compiled $(PYTEST) -n 5 $(TOGETHER) $(FAULT_TESTS:%=--ignore=%) $(SPARK_TESTS:%=--ignore=%) \
		$(FAULT_CASES:%=--deselect=%) $(SPARK_CASES:%=--deselect=%)

test: ## before a pull request, 12 minutes: lint, and all tests but the slow ones, on the compiled core if there is a compiler
	@tools/setup tools
	@$(MAKE) --no-print-directory -j 2 setup lint
	@$(SUITE) -m "not slow"

test-all: test rest ## `make test`, and the slow tests; `make faults` and `make conformance` have the others

# `make test-all` runs this after `make test`: the slow tests, and the tests of Spark.
rest: setup
	@$(SUITE) -m slow
	WARREN_COMPILED=0 $(PYTEST) -n 2 $(TOGETHER) $(FAULT_TESTS:%=--ignore=%) $(SPARK_TESTS) $(SPARK_CASES)

faults: setup ## real nodes with cut networks, full disks and kills; Spark drivers and jobs with kills; client programs with RabbitMQ; the pure tests uncompiled
	WARREN_COMPILED=0 $(PYTEST) -n 2 $(TOGETHER) $(PURE_TESTS)
	WARREN_DRIVER_KILLS=20 $(PYTEST) -n 2 $(TOGETHER) $(FAULT_TESTS) $(FAULT_CASES)
	WARREN_TEST_BROKER=rabbitmq $(PYTEST) -n 2 $(TOGETHER) $(RABBITMQ_TESTS)

lint: ## ruff, mypy --strict and the import contracts
	@tools/setup lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	WARREN_COMPILED=0 .venv/bin/lint-imports

conformance: setup ## public AMQP clients' own integration suites against a node
	conformance/run

demo: setup ## a day of orders through a cluster that loses a node, and the reconciliation of its books: examples/orders
	@.venv/bin/python examples/orders/demo.py

bank: setup ## a teller and a bank with a database each: ten minutes of kills, and books that balance: examples/bank
	@.venv/bin/python examples/bank/run.py

bench: setup ## measure against RabbitMQ on this machine
	bench/run

soak: setup ## the long runs: ten million mutated frames, a million HTTP requests, ten thousand simulated worlds, five hundred kills, cut networks, a hundred million rows, new examples
	bench/fuzz
	bench/fuzz --door http
	bench/seeds
	bench/kills
	bench/cuts
	bench/reconcile
	WARREN_COMPILED=0 $(PYTEST) -n 2 $(TOGETHER) --hypothesis-profile=by_chance tests/property

lock: ## resolve the newest dependencies and write requirements/*.txt (needs uv)
	tools/lock

sbom: ## write build/sbom.cdx.json, the software bill of materials of a node (CycloneDX)
	@python3 tools/sbom.py build/sbom.cdx.json

clean: ## remove .venv, build products and caches; data in ./var stays
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
