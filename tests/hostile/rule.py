"""The rule: while a hostile client does its worst, a message of a well-behaved client takes less than 100 ms in 99 of
100 cases, and neither a turn of the node nor a step of an HTTP request takes longer than 50 ms.

Tests check it in processor time of the node's event loop, because a busy machine makes everything take longer. On the
uncompiled core, which is several times slower, the bounds are `UNCOMPILED_FACTOR` times as large: they still find work
that grows without bound.

Not here: wall time (`bench/hostile`).
"""

import re
import urllib.request

from tests.support.node_process import NodeProcess
from warren.node.process import core_kind

P99_MAX_S = 0.1
HOLD_MAX_S = 0.05
UNCOMPILED_FACTOR = 10
FACTOR = 1 if core_kind() == "compiled" else UNCOMPILED_FACTOR

_HOLD = re.compile(r'^warren_longest_hold_seconds\{work="(\w+)",clock="(\w+)"\} (\S+)$', re.MULTILINE)


def longest_holds(node: NodeProcess) -> dict[tuple[str, str], float]:
    """The longest turn and the longest step of a request since the node started, by work and clock, in seconds."""
    host, port = node.addresses["http"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {(work, clock): float(value) for work, clock, value in _HOLD.findall(text)}


def check_work(p99_s: float) -> None:
    """`p99_s` is the processor time of the node during a message of the pair."""
    assert p99_s < P99_MAX_S * FACTOR, f"the node worked for {p99_s * 1000:.0f} ms during a message of the pair (p99)"


def check_holds(node: NodeProcess) -> None:
    """Over the whole life of the node."""
    for (work, clock), longest_s in longest_holds(node).items():
        if clock == "cpu":
            assert longest_s < HOLD_MAX_S * FACTOR, (
                f"a {work} held the node for {longest_s * 1000:.0f} ms\n{slow(node)}"
            )


def slow(node: NodeProcess) -> str:
    """The log's lines about slow work."""
    return "\n".join(line for line in node.log().splitlines() if ".slow " in line)
