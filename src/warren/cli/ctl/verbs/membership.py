"""Stop and start the node within its process, and its membership in a cluster.

The terms are RabbitMQ's, whose node is an application in a virtual machine: `stop_app` stops the application and leaves
the process running.

Not here: talking to a stopped node (`cli.ctl.verb`), the cluster's status (`status`).
"""

import time
from collections.abc import Callable
from typing import Final

from warren.cli.ctl.api import (
    DATA_ERROR,
    SOFTWARE,
    UNAVAILABLE,
    ApiRefusal,
    Failure,
    TimedOut,
    UsageFailure,
    WrongNodeState,
    failed,
)
from warren.cli.ctl.verb import RUNNING, STOPPED, Text, Verb, VerbCall, VerbResult

START_PATIENCE_S: Final = 300.0
POLL_S: Final = 0.1
KINDS: Final = ("disc", "ram")
ALREADY: Final = "already_member"
NODE_DOWN: Final = "nodedown"


def stop_app(call: VerbCall) -> None:
    call.membership.order("stop_app")
    _wait_for(call, STOPPED)


def start_app(call: VerbCall) -> None:
    call.membership.order("start_app")
    _wait_for(call, RUNNING)


def _wait_for(call: VerbCall, app: str) -> None:
    """Wait for the state. A node that fails to start is stopped again, with a reason."""
    deadline = time.monotonic() + call.timeout_s
    while True:
        state = _state(call)
        if state == app:
            return
        if state == STOPPED and app == RUNNING:
            trouble = _answer_of(call.membership.trouble)
            if trouble:
                raise failed(trouble)
        if time.monotonic() >= deadline:
            raise TimedOut(call.timeout_s)
        time.sleep(POLL_S)


def _state(call: VerbCall) -> str:
    def looked() -> str:
        call.membership.look()
        return call.membership.app

    call.api.close()
    return _answer_of(looked)


def _answer_of(question: Callable[[], str]) -> str:
    """Empty while the node's port changes hands."""
    try:
        return question()
    except (ApiRefusal, TimedOut):
        raise
    except Failure:
        return ""


def join_cluster(call: VerbCall) -> Text | None:
    other = call.arguments[0]
    if other == call.node:
        raise failed(f"Error: cannot cluster node with itself: {other}", SOFTWARE)
    try:
        call.membership.order("join_cluster", node=other, kind="ram" if call.own("ram") else "disc")
    except ApiRefusal as answer:
        if answer.error == ALREADY:
            return Text(answer.reason)
        if answer.error == NODE_DOWN:
            raise Failure(UNAVAILABLE, _no_answer(other, answer.reason)) from answer
        raise _in_words(answer) from answer
    return None


def forget_cluster_node(call: VerbCall) -> None:
    _order(call, "forget_cluster_node", node=call.arguments[0], offline=bool(call.own("offline")))


def update_cluster_nodes(call: VerbCall) -> Text:
    return Text("Nothing to do: the nodes of a cluster remember each other", chatty=True)


def await_online_nodes(call: VerbCall) -> None:
    wanted = int(call.arguments[0])
    deadline = time.monotonic() + call.timeout_s
    while True:
        nodes = call.api.get("nodes", columns="name,running")
        if sum(1 for node in nodes if node["running"]) >= wanted:
            return
        if time.monotonic() >= deadline:
            raise failed(f"Error: timed out while waiting. Not enough nodes joined {call.node}'s cluster.", SOFTWARE)
        time.sleep(POLL_S)


def _sends(verb: str, *names: str) -> Callable[[VerbCall], VerbResult]:
    """Send the order with the arguments under these names."""

    def run(call: VerbCall) -> None:
        _order(call, verb, **dict(zip(names, call.arguments, strict=True)))

    return run


def _order(call: VerbCall, verb: str, **arguments: object) -> None:
    try:
        call.membership.order(verb, **arguments)
    except ApiRefusal as answer:
        raise _in_words(answer) from answer


def _in_words(answer: ApiRefusal) -> Failure:
    """A node's refusal as rabbitmqctl prints it: an atom and a string."""
    if answer.status != 400 or answer.error in ("", "failed", "bad_request"):
        return answer
    quoted = answer.reason.replace("'", "\\'")
    return failed(f"{{:{answer.error}, '{quoted}'}}")


def _no_answer(node: str, reason: str) -> str:
    return (
        f"Error: unable to perform an operation on node '{node}'. "
        "Please see diagnostics information and suggestions below.\n\n"
        "Most common reasons for this are:\n\n"
        " * Target node is unreachable (e.g. due to hostname resolution, TCP connection or firewall issues)\n"
        " * It listens for other nodes on another port than 25672: name it as NAME@HOST:PORT or HOST:PORT\n"
        " * Target node is not running\n\n"
        f"DIAGNOSTICS\n===========\n\nattempted to contact: [{node}]\n\n * {reason}"
    )


def _when_stopped(call: VerbCall) -> None:
    if call.membership.app != STOPPED:
        raise WrongNodeState(
            "this command requires the 'rabbit' app to be stopped on the target node. "
            "Stop it with 'warren ctl stop_app'."
        )


def _when_halted(call: VerbCall) -> None:
    if call.membership.app != STOPPED:
        raise WrongNodeState("this command requires the target node to be stopped.")


def _check_forgetting(call: VerbCall) -> None:
    if call.own("offline"):
        _when_halted(call)


def _check_kind(call: VerbCall) -> None:
    if call.arguments[0] not in KINDS:
        raise UsageFailure(DATA_ERROR, "Bad argument: The node type must be either disc or ram.")
    _when_stopped(call)


def _check_count(call: VerbCall) -> None:
    if not call.arguments[0].isdigit() or not int(call.arguments[0]):
        raise UsageFailure(DATA_ERROR, "Bad argument: the number of nodes must be a positive whole number")


def _waiting_banner(call: VerbCall) -> str:
    wanted, patience_s = call.arguments[0], call.timeout_s
    return (
        f"Will wait for at least {wanted} nodes to join the cluster of {call.node}. Timeout: {patience_s:.0f} seconds."
    )


NODE_VERBS: Final = [
    Verb(
        "start_app",
        "Starts the node in its process, after stop_app, and waits until it has started",
        start_app,
        "",
        "start_app",
        "Starting node {node} ...",
        patience_s=START_PATIENCE_S,
        of_process=True,
    ),
    Verb(
        "stop_app",
        "Stops the node but not its process, which then accepts membership commands",
        stop_app,
        "",
        "stop_app",
        "Stopping rabbit application on node {node} ...",
        of_process=True,
    ),
    Verb(
        "reset",
        "Removes a stopped node from its cluster and deletes its data",
        _sends("reset"),
        "",
        "reset",
        "Resetting node {node} ...",
        check=_when_stopped,
        of_process=True,
    ),
    Verb(
        "force_reset",
        "Deletes the data of a stopped node without telling its cluster",
        _sends("force_reset"),
        "",
        "force_reset",
        "Forcefully resetting node {node} ...",
        check=_when_stopped,
        of_process=True,
    ),
]
CLUSTER_VERBS: Final = [
    Verb(
        "await_online_nodes",
        "Waits until this many nodes of the cluster run",
        await_online_nodes,
        "<count> [--timeout <timeout>]",
        "await_online_nodes 3",
        _waiting_banner,
        (1, 1),
        check=_check_count,
        patience_s=START_PATIENCE_S,
    ),
    Verb(
        "change_cluster_node_type",
        "Makes a stopped node a disc node or a RAM node",
        _sends("change_cluster_node_type", "kind"),
        "<disc | ram>",
        "change_cluster_node_type ram",
        "Turning {node} into a {0} node",
        (1, 1),
        check=_check_kind,
        of_process=True,
    ),
    Verb(
        "forget_cluster_node",
        "Removes a node that does not run from its cluster, with its queues",
        forget_cluster_node,
        "[--offline] <existing_cluster_member_node>",
        "forget_cluster_node warren@two",
        "Removing node {0} from the cluster",
        (1, 1),
        {"offline": bool},
        check=_check_forgetting,
        of_process=True,
    ),
    Verb(
        "join_cluster",
        "Makes a stopped node a member of another node's cluster; its data is deleted",
        join_cluster,
        "[--disc|--ram] <existing_cluster_member>",
        "join_cluster warren@one",
        "Clustering node {node} with {0}",
        (1, 1),
        {"ram": bool, "disc": bool},
        check=_when_stopped,
        patience_s=120.0,
        of_process=True,
    ),
    Verb(
        "rename_cluster_node",
        "Gives a stopped node another name",
        _sends("rename_cluster_node", "old", "new"),
        "<oldnode> <newnode>",
        "rename_cluster_node warren@old warren@new",
        "Renaming cluster nodes: \n {0} -> {1}",
        (2, 2),
        check=_when_halted,
        of_process=True,
    ),
    Verb(
        "update_cluster_nodes",
        "Accepted, has no effect: nodes remember each other",
        update_cluster_nodes,
        "<seed_node>",
        "update_cluster_nodes warren@one",
        "Will seed {node} from {0} on next start",
        (1, 1),
        check=_when_stopped,
        of_process=True,
    ),
]
