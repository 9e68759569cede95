"""A node seen from outside: its memory, its processor time, its log.

Not here: its answers (`tests.support.amqp_client`).
"""

import os
from pathlib import Path

from tests.support.node_process import NodeProcess

DEADLINE_S = 30.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MEGABYTE = 1024 * 1024


def resident_bytes(node: NodeProcess) -> int:
    return int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * PAGE_BYTES


def loop_cpu_s(node: NodeProcess) -> float:
    """The processor time of its event loop, which runs in the first thread."""
    return int(Path(f"/proc/{node.pid}/task/{node.pid}/schedstat").read_text().split()[0]) / 1e9


def lines_about(node: NodeProcess, port: int) -> list[str]:
    """The log's lines about the client on this port, but for the one that says it came in."""
    lines = [line for line in node.log().splitlines() if f"peer=127.0.0.1:{port} " in f"{line} "]
    return [line for line in lines if " event=connection.opened" not in line]
