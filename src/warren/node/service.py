"""A process and the node in it, which may stop and start again while the process stays.

::

    serve ──► runs ──stop_app──► stopped ──start_app──► runs ──► …
                │  ▲                │ ▲                   │
                └──┘ others took    │ └── it cannot start ┘
                │    it for dead    │
                └─ SIGTERM, `stop` ─┴──► the process ends

Every run has its own event loop, sockets and lock on the data directory. A node that cannot start ends the process,
unless it was stopped before: then it stays stopped and reports the reason.

Not here: a run (`node.node`), a stopped node (`node.stopped_node`).
"""

import asyncio
import logging
from collections.abc import Callable

from warren.errors import ConfigError, StoreError
from warren.node import process
from warren.node.config.settings import NodeSettings
from warren.node.disk.disk import Disk
from warren.node.logs import Log, LogLevels
from warren.node.node import END, RUN, STOPPED, Node
from warren.node.peers.cookie import read_cookie
from warren.node.turn_loop import Core


def serve(settings: NodeSettings, core: Core | None = None) -> int:
    """Run a node until it is stopped; returns its exit code. Raises `ConfigError` or `StoreError` if it cannot start.

    A core that is passed in keeps nothing on disk.
    """
    process.tune_allocator()
    # the loops log a warning for every write to a socket that is being lost
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    exit_code, sequel, trouble = 0, STOPPED if settings.stopped else RUN, ""
    was_stopped = False
    while sequel != END:
        if sequel == STOPPED:
            was_stopped = True
            sequel = _stay_stopped(settings, trouble)
            continue
        try:
            exit_code, sequel = _run(settings, core)
        except (ConfigError, StoreError) as error:
            if not was_stopped:
                raise
            sequel, trouble = STOPPED, str(error)
    return exit_code


def _run(settings: NodeSettings, core: Core | None) -> tuple[int, str]:
    """The exit code of a run, and what follows it."""
    disk = None
    if core is None:
        disk = Disk(settings.data_dir, settings.broker.node_name, lambda: read_cookie(settings.cluster))
    log = _log(settings)
    try:
        node = Node(settings, log, process.raise_descriptor_limit(), disk)
        loop_name, new_loop = _event_loop()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(node.run(core, loop_name)), node.sequel
    finally:
        if disk is not None:
            disk.close()
        log.close()


def _stay_stopped(settings: NodeSettings, trouble: str) -> str:
    # a node alone does not load these libraries
    from warren.node.stopped_node import StoppedNode

    log = _log(settings)
    node = StoppedNode(settings, log, trouble)
    try:
        with asyncio.Runner(loop_factory=_event_loop()[1]) as runner:
            return RUN if runner.run(node.run()) else END
    finally:
        node.close()
        log.close()


def _log(settings: NodeSettings) -> Log:
    return Log(LogLevels(settings.log.levels), settings.log.form)


def _event_loop() -> tuple[str, Callable[[], asyncio.AbstractEventLoop]]:
    try:
        import uvloop
    except ImportError:
        return "asyncio", asyncio.new_event_loop
    return "uvloop", uvloop.new_event_loop
