"""`warren sim` prints a trace and a verdict."""

import pytest

from warren.sim.report import RunResult, Violation
from warren.sim.run import run_node


def test_a_good_run_prints_its_trace_and_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_node(1, 200, sink=print).print_verdict() == 0
    printed = capsys.readouterr().out
    assert "connection.start" in printed
    assert "heals" in printed
    assert printed.splitlines()[-1].startswith("seed 1: good (")


def test_a_verdict_says_how_to_replay_the_run() -> None:
    complaint = Violation("order kept", "message 2 went first")
    outcome = RunResult(7, 300, (complaint,), published=3, confirmed=2, steps_taken=120)
    assert not outcome.good
    assert "warren sim --seed 7 --steps 300" in outcome.verdict()
    assert "order kept: message 2 went first" in outcome.verdict()
