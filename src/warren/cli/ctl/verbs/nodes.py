"""Nodes: ping, wait for one, stop one, change its settings at run time.

Not here: the status of a node (`status`), health checks (`health_checks`).
"""

import os
import re
import time
from collections.abc import Callable
from typing import Final

from warren import __version__
from warren.cli.ctl.api import DATA_ERROR, STOPPED, ApiRefusal, Failure, TimedOut, UsageFailure, failed
from warren.cli.ctl.verb import Text, Verb, VerbCall

START_PATIENCE_S: Final = 300.0
POLL_S: Final = 0.2
LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")
SIZE: Final = re.compile(r"\d+\s*([kmgt]i?b?)?$", re.IGNORECASE)


def ping(call: VerbCall) -> Text:
    try:
        call.api.get("whoami")
    except ApiRefusal as answer:
        # its process is running, as in RabbitMQ
        if answer.error != STOPPED:
            raise
    except Failure as failure:
        place, limit_ms = call.options.node or call.api.url, int(call.timeout_s * 1000)
        raise failed(f"Failed to connect and authenticate to {place} in {limit_ms} ms") from failure
    return Text("Ping succeeded")


def _ping_banner(call: VerbCall) -> str:
    place, limit_ms = call.options.node or call.api.url, int(call.timeout_s * 1000)
    return f"Will ping {place}. This only checks that its HTTP API answers. Timeout: {limit_ms} ms."


def await_startup(call: VerbCall) -> None:
    deadline = time.monotonic() + call.timeout_s
    while not _answers(call):
        if time.monotonic() >= deadline:
            raise TimedOut(call.timeout_s)
        time.sleep(POLL_S)


def _answers(call: VerbCall) -> bool:
    """Whether the node responds; a starting node refuses connections or responds with 503."""
    try:
        call.api.get("overview", columns="node")
    except ApiRefusal as answer:
        if answer.status != 503:
            raise
        return False
    except TimedOut:
        raise
    except Failure:
        return False
    return True


def stop(call: VerbCall) -> None:
    """Stop the node; with a pid file, wait until that process has ended."""
    process = _process(call.arguments[0]) if call.arguments else None
    try:
        _stop(call)
    except ApiRefusal:
        raise
    except Failure:
        if not call.own("idempotent"):
            raise
    if process is not None:
        _wait_until_gone(call, lambda: not os.path.exists(f"/proc/{process}"))


def _stop(call: VerbCall) -> None:
    try:
        call.api.post("nodes", call.node, "stop", body={})
    except ApiRefusal as answer:
        if answer.error == STOPPED:
            call.membership.order("stop")
            return
        if answer.status in (404, 405):
            raise failed("this server cannot be stopped over HTTP") from answer
        raise


def shutdown(call: VerbCall) -> None:
    _stop(call)
    call.api.close()
    if not call.own("no-wait"):
        _wait_until_gone(call, lambda: not _answers(call))


def drain(call: VerbCall) -> None:
    _change_draining(lambda: call.api.put("nodes", call.node, "draining", body={}))


def revive(call: VerbCall) -> None:
    _change_draining(lambda: call.api.delete("nodes", call.node, "draining"))


def _change_draining(ask: Callable[[], None]) -> None:
    try:
        ask()
    except ApiRefusal as answer:
        if answer.status == 405 or answer.error in ("Object Not Found", ""):
            raise failed("this server cannot be drained: it has no fitness check for load balancers") from answer
        raise


def _process(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError) as error:
        raise failed(f"{path} is not a file with a process id", DATA_ERROR) from error


def _wait_until_gone(call: VerbCall, gone: object) -> None:
    assert callable(gone)
    deadline = time.monotonic() + call.timeout_s
    while not gone():
        if time.monotonic() >= deadline:
            raise TimedOut(call.timeout_s)
        time.sleep(POLL_S)


def _stop_banner(call: VerbCall) -> str:
    try:
        return f"Stopping and halting node {call.node} ..."
    except ApiRefusal as answer:
        if answer.error != STOPPED:
            raise
        return f"Stopping and halting node {call.membership.node} ..."
    except Failure:
        if call.own("idempotent"):
            return f"Stopping and halting node {call.options.node or call.api.url} ..."
        raise


def set_cluster_name(call: VerbCall) -> None:
    call.api.put("cluster-name", body={"name": call.arguments[0]})


def set_log_level(call: VerbCall) -> None:
    level, *category = call.arguments
    _put_setting(call, "log-levels", category[0] if category else "default", {"level": level})


def _check_level(call: VerbCall) -> None:
    if call.arguments[0] not in LEVELS:
        raise failed(f"level {call.arguments[0]} is not supported. Try one of {', '.join(LEVELS)}")


def _level_banner(call: VerbCall) -> str:
    level, *category = call.arguments
    return f'Setting log level{f" of {category[0]}" if category else ""} to "{level}" ...'


def set_vm_memory_high_watermark(call: VerbCall) -> None:
    kind, value = _watermark(call)
    _put_setting(call, "settings", f"vm_memory_high_watermark.{kind}", {"value": value})


def set_disk_free_limit(call: VerbCall) -> None:
    kind, value = _disk_limit(call)
    _put_setting(call, "settings", f"disk_free_limit.{kind}", {"value": value})


def _watermark(call: VerbCall) -> tuple[str, str | float]:
    """A fraction of memory from 0 to 1, or `absolute` and a size."""
    if len(call.arguments) == 2:
        return _absolute(call, "absolute")
    fraction = _fraction(call.arguments[0])
    if not 0 <= fraction <= 1:
        raise UsageFailure(DATA_ERROR, "Bad argument: The threshold should be a fraction between 0.0 and 1.0")
    return "relative", fraction


def _disk_limit(call: VerbCall) -> tuple[str, str | float]:
    """A size, or `mem_relative` and a factor of memory."""
    if len(call.arguments) == 1:
        return _absolute(call, "")
    if call.arguments[0] != "mem_relative":
        raise UsageFailure(DATA_ERROR, "Bad argument.")
    return "relative", _fraction(call.arguments[1])


def _absolute(call: VerbCall, word: str) -> tuple[str, str]:
    *before, size = call.arguments
    if before != ([word] if word else []) or not SIZE.match(size):
        raise UsageFailure(DATA_ERROR, "Bad argument.")
    return "absolute", size


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageFailure(DATA_ERROR, "Bad argument.") from error


def _put_setting(call: VerbCall, kind: str, name: str, body: dict[str, object]) -> None:
    try:
        call.api.put("warren", kind, name, body=body)
    except ApiRefusal as answer:
        if answer.status in (404, 405) and answer.error in ("Object Not Found", ""):
            raise failed("this server does not support changing this setting over HTTP") from answer
        raise


def _watermark_banner(call: VerbCall) -> str:
    *kind, value = call.arguments
    return f"Setting memory threshold on {call.node} to {value}{' bytes' if kind else ''} ..."


def _disk_banner(call: VerbCall) -> str:
    *kind, value = call.arguments
    return f"Setting disk free limit on {call.node} to {value} {'times the total RAM' if kind else 'bytes'} ..."


def version(call: VerbCall) -> Text:
    return Text(__version__)


PING: Final = Verb(
    "ping",
    "Checks that the node responds and accepts this user name and password",
    ping,
    "[--timeout <timeout>]",
    "ping",
    _ping_banner,
)
VERSION: Final = Verb("version", "Prints the version of this command", version, "", "version")
VERBS: Final = [
    Verb(
        "await_startup",
        "Waits until a node has started",
        await_startup,
        "",
        "await_startup --timeout 60",
        patience_s=START_PATIENCE_S,
    ),
    Verb(
        "stop",
        "Stops a node; with a pid file, waits until its process has ended",
        stop,
        "[--idempotent] [<pidfile>]",
        "stop",
        _stop_banner,
        (0, 1),
        {"idempotent": bool},
    ),
    Verb(
        "shutdown",
        "Stops a node and waits until it no longer responds",
        shutdown,
        "[--wait] [--no-wait] [--timeout <timeout>]",
        "shutdown",
        "Shutting down node {node} ...",
        switches={"wait": bool, "no-wait": bool},
    ),
    Verb(
        "drain",
        "Tells load balancers to send no new clients to a node; existing clients stay until it stops",
        drain,
        "",
        "drain",
        "Draining node {node} ...",
    ),
    Verb(
        "revive",
        "Tells load balancers to send clients to a node again",
        revive,
        "",
        "revive",
        "Reviving node {node} ...",
    ),
]
SETTINGS: Final = [
    Verb(
        "set_cluster_name",
        "Names the cluster",
        set_cluster_name,
        "<name>",
        "set_cluster_name warehouse",
        "Setting cluster name to {0} ...",
        (1, 1),
    ),
    Verb(
        "set_log_level",
        "Sets the log level of a node, or of one category",
        set_log_level,
        "<log_level> [<category>]",
        "set_log_level debug connection",
        _level_banner,
        (1, 2),
        check=_check_level,
    ),
    Verb(
        "set_vm_memory_high_watermark",
        "Sets how much memory a node may use before it blocks publishers",
        set_vm_memory_high_watermark,
        "<fraction> | absolute <value>",
        "set_vm_memory_high_watermark absolute 2GB",
        _watermark_banner,
        (1, 2),
        check=lambda call: _ignore(_watermark(call)),
    ),
    Verb(
        "set_disk_free_limit",
        "Sets the free disk space below which a node blocks publishers",
        set_disk_free_limit,
        "<disk_limit> | mem_relative <fraction>",
        "set_disk_free_limit 1GB",
        _disk_banner,
        (1, 2),
        check=lambda call: _ignore(_disk_limit(call)),
    ),
]


def _ignore(_: object) -> None:
    """Parsing the arguments was the check."""
