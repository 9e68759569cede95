"""The command lines of `warren cluster`.

Standard output says what was done. Standard error has the progress of a start and reasons for refusals.

Exit codes: 0 done; 1 refused or failed; 2 wrong usage, a bad option or port, a node that is not of this cluster.

Not here: processes (`cli.cluster.node_processes`), the status table (`cli.cluster.status`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from warren.cli.cluster.local_cluster import LocalCluster
    from warren.cli.cluster.node_processes import NodeProcess


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Data = Annotated[str, typer.Option("--data", metavar="DIR", help="The cluster's directory.")]
Names = Annotated[list[str], typer.Argument(metavar="N...", help="The nodes: n1, n2, …")]
CONFIG_FILE = typer.Option(metavar="FILE", help="A rabbitmq.conf-style file for every node.")
DEFAULT_DIRECTORY = "var/cluster"
ITS_MEMBER = "A node's etcd member goes on without it, and is found again when the node starts."


def _number(metavar: str, sentence: str, least: int = 0) -> Any:
    return typer.Option(metavar=metavar, help=sentence, min=least, max=65535)


@app.callback(epilog="Example: warren cluster up --nodes 3")
def cluster() -> None:
    """A cluster on this machine, for tests and experiments."""


@app.command(
    epilog="Example: warren cluster up --nodes 3 --amqp 5701 --http 15701\n\n"
    "Node n1 listens on the first port of each kind, n2 on the next, and so on; a first port of 0 picks free ones. A "
    "cluster that was made before is started again as it was."
)
def up(
    nodes: Annotated[int | None, _number("N", "Number of nodes; 3 by default.", 1)] = None,
    amqp: Annotated[int | None, _number("PORT", "The first port for AMQP; 5701 by default.")] = None,
    http: Annotated[int | None, _number("PORT", "The first port for HTTP; 15701 by default.")] = None,
    peer: Annotated[int | None, _number("PORT", "The first port between nodes; 25701 by default.")] = None,
    data: Data = DEFAULT_DIRECTORY,
    ram: Annotated[int | None, _number("N", "Number of RAM nodes, the last ones.")] = None,
    witness: Annotated[
        bool, typer.Option("--witness", help="The last node is a witness, and holds no queues.")
    ] = False,
    config: Annotated[str | None, CONFIG_FILE] = None,
) -> int:
    """Start a cluster, and wait until every node is ready."""
    from warren.cli.cluster import local_cluster as layouts

    directory = Path(data).resolve()
    config = str(Path(config).absolute()) if config else config
    with layouts.locked(directory):
        layout = layouts.make_cluster(
            directory, layouts.LocalClusterOptions(nodes, ram, witness or None, amqp, http, peer, config)
        )
        stopped = [process for process in _processes(layout) if process.pid() is None]
        _start(stopped)
    print(f"Pages: http://{layouts.HOST}:{layout.nodes[0].http}/ (user guest, password guest)")
    print(f"To stop: warren cluster down --data {data}")
    return 0


@app.command(epilog="Example: warren cluster status --data var/cluster")
def status(data: Data = DEFAULT_DIRECTORY) -> int:
    """Show each node's process and its state in the cluster."""
    from warren.cli.cluster import status

    status.show(_processes(_found(data)))
    return 0


@app.command(
    epilog="Example: warren cluster down --data var/cluster\n\n"
    "A node that does not stop within 30 s is killed. The data stays; 'warren cluster up' starts the nodes again."
)
def down(data: Data = DEFAULT_DIRECTORY) -> int:
    """Stop every node cleanly, and its etcd member."""
    from warren.cli.cluster import local_cluster as layouts
    from warren.cli.cluster import node_processes

    layout = _found(data)
    with layouts.locked(layout.directory):
        for overdue in node_processes.take_down(_processes(layout)):
            print(f"{overdue.node.name} took too long to stop, and was killed.")
    print("Every node is stopped.")
    return 0


@app.command(epilog=f"Example: warren cluster kill n2\n\n{ITS_MEMBER}")
def kill(names: Names, data: Data = DEFAULT_DIRECTORY) -> int:
    """Kill nodes with SIGKILL."""
    from warren.cli.cluster import node_processes

    for process in _chosen(names, data):
        _insist(process, node_processes.kill_node(process))
        print(f"{process.node.name} is killed.")
    return 0


@app.command(epilog=f"Example: warren cluster stop n2\n\n{ITS_MEMBER}")
def stop(names: Names, data: Data = DEFAULT_DIRECTORY) -> int:
    """Stop nodes cleanly with SIGTERM, and wait until they have ended."""
    from warren.cli.cluster import node_processes
    from warren.errors import WarrenError

    for process in _chosen(names, data):
        _insist(process, node_processes.ask_to_stop(process))
        if not process.ended_within(node_processes.STOP_DEADLINE_S):
            raise WarrenError(f"{process.node.name} did not stop within {node_processes.STOP_DEADLINE_S:.0f} s")
        process.forget()
        print(f"{process.node.name} is stopped.")
    return 0


@app.command(epilog="Example: warren cluster start n2")
def start(names: Names, data: Data = DEFAULT_DIRECTORY) -> int:
    """Start nodes that were stopped or killed, with the same arguments."""
    from warren.cli.cluster import local_cluster as layouts
    from warren.errors import CommandRefused

    layout = _found(data)
    with layouts.locked(layout.directory):
        processes = _chosen(names, data)
        for process in processes:
            pid = process.pid()
            if pid is not None:
                raise CommandRefused("bad_request", f"{process.node.name} is {process.state()} already (pid {pid})")
        _start(processes)
    return 0


@app.command(epilog="Example: warren cluster pause n2")
def pause(names: Names, data: Data = DEFAULT_DIRECTORY) -> int:
    """Freeze nodes with SIGSTOP: their sockets stay open but do not respond."""
    return _freeze(names, data, frozen=True)


@app.command(epilog="Example: warren cluster resume n2")
def resume(names: Names, data: Data = DEFAULT_DIRECTORY) -> int:
    """Resume paused nodes with SIGCONT."""
    return _freeze(names, data, frozen=False)


def _freeze(names: list[str], data: str, *, frozen: bool) -> int:
    import signal

    from warren.cli.cluster.node_processes import PAUSED, RUNNING
    from warren.errors import WarrenError

    number, state = (signal.SIGSTOP, PAUSED) if frozen else (signal.SIGCONT, RUNNING)
    for process in _chosen(names, data):
        _insist(process, process.signal(number))
        if not process.reached_within(state):
            raise WarrenError(f"{process.node.name} is {process.state()}, not {state}")
        print(f"{process.node.name} is {state}.")
    return 0


def _insist(process: "NodeProcess", ran: bool) -> None:
    from warren.errors import CommandRefused

    if not ran:
        raise CommandRefused("not_found", f"{process.node.name} does not run")


def _found(data: str) -> "LocalCluster":
    from warren.cli.cluster import local_cluster as layouts

    return layouts.load_cluster(Path(data).resolve())


def _processes(layout: "LocalCluster") -> list["NodeProcess"]:
    from warren.cli.cluster.node_processes import NodeProcess

    return [NodeProcess(layout, node) for node in layout.nodes]


def _chosen(names: list[str], data: str) -> list["NodeProcess"]:
    """The processes of the named nodes, without repetitions. Unknown names fail before anything is done."""
    from warren.cli.cluster.node_processes import NodeProcess

    layout = _found(data)
    nodes = {node.name: node for node in (layout.node(name) for name in names)}
    return [NodeProcess(layout, node) for node in nodes.values()]


def _start(processes: list["NodeProcess"]) -> None:
    from warren.cli.cluster import node_processes
    from warren.cli.cluster.node_processes import StartProgress

    with StartProgress(len(processes)) as waiting:
        node_processes.start_nodes(processes, waiting.show, waiting.ready)
