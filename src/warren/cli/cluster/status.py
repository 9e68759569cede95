"""The table of `warren cluster status`: for each node the state of its process and what the cluster reports.

`etcd` is the process of the node's etcd member, which outlives the node. The cluster is asked over HTTP as guest, at
the first running node that responds; without a response the column is a dash. A terminal gets a drawn table, a pipe
tab-separated columns.

Not here: details of the cluster (`warren ctl cluster_status`).
"""

import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from warren.cli.cluster.local_cluster import HOST
from warren.cli.cluster.node_processes import RUNNING, NodeProcess, member_pid
from warren.cli.ctl.api import Api, Failure
from warren.cli.terminal import visible

ASK_TIMEOUT_S: Final = 10.0
COLUMNS: Final = ("node", "name", "kind", "pid", "state", "amqp", "http", "peer", "etcd", "cluster")
UNKNOWN: Final = "-"


def show(nodes: Sequence[NodeProcess]) -> None:
    states = [node.state() for node in nodes]
    reported = _reported([node for node, state in zip(nodes, states, strict=True) if state == RUNNING])
    rows = [_row(node, state, reported) for node, state in zip(nodes, states, strict=True)]
    if sys.stdout.isatty():
        _draw(rows)
    else:
        print("\n".join("\t".join(row) for row in [list(COLUMNS), *rows]))


def _row(process: NodeProcess, state: str, reported: dict[str, str] | None) -> list[str]:
    node = process.node
    pids = [UNKNOWN if pid is None else str(pid) for pid in (process.pid(), member_pid(process.data))]
    said = UNKNOWN if reported is None else reported.get(node.full_name, "no member")
    ports = [str(port) for port in (node.amqp, node.http, node.peer)]
    return [node.name, node.full_name, node.kind, pids[0], state, *ports, pids[1], said]


def _reported(running: Sequence[NodeProcess]) -> dict[str, str] | None:
    """What the first node that responds reports of each node; None without a response."""
    for process in running:
        with closing(Api(f"http://{HOST}:{process.node.http}", "guest", "guest", "", ASK_TIMEOUT_S)) as api:
            try:
                return {found["name"]: _state_text(found) for found in api.get("nodes")}
            except Failure:
                continue
    return None


def _state_text(found: dict[str, Any]) -> str:
    words = ["running" if found.get("running") else "not running"]
    if found.get("partitions"):
        words.append(f"cut off from {', '.join(found['partitions'])}")
    if found.get("mem_alarm"):
        words.append("memory alarm")
    if found.get("disk_free_alarm"):
        words.append("disk alarm")
    return "; ".join(words)


def _draw(rows: list[list[str]]) -> None:
    from rich.box import SQUARE
    from rich.console import Console
    from rich.table import Table

    table = Table(*COLUMNS, box=SQUARE)
    for row in rows:
        table.add_row(*map(visible, row))
    Console(markup=False).print(table)
