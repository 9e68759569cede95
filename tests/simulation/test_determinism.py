"""A seed is a run: the same to the last byte, with every hash seed of the interpreter."""

import hashlib
import os
import subprocess
import sys

from warren.sim.run import run_node

STEPS = 600
PRINT_DIGEST = f"""
import hashlib
from warren.sim.run import run_node
lines = []
outcome = run_node(11, {STEPS}, sink=lines.append)
print(hashlib.sha256(chr(10).join(lines).encode()).hexdigest(), outcome.steps_taken)
"""


def told(seed: int) -> tuple[list[str], int]:
    lines: list[str] = []
    outcome = run_node(seed, STEPS, sink=lines.append)
    return lines, outcome.steps_taken


def test_one_seed_gives_one_trace() -> None:
    for seed in (1, 2, 3):
        assert told(seed) == told(seed)


def test_another_seed_gives_another_trace() -> None:
    assert told(1) != told(2)


def test_a_quiet_run_is_the_same_as_one_with_output() -> None:
    lines, steps_taken = told(5)
    assert lines
    assert run_node(5, STEPS).steps_taken == steps_taken


def test_the_hash_seed_of_the_interpreter_does_not_matter() -> None:
    lines, steps_taken = told(11)
    here = f"{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()} {steps_taken}"
    for hash_seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", PRINT_DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == here
