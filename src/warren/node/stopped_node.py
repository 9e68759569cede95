"""A node whose broker is stopped: a process that holds the data directory and takes orders about its membership.

It has no clients, peers or users. Its etcd member, a process of its own, keeps running. `start_app` and SIGTERM end it.

Not here: what an order does (`node.cluster.stopped_member`), the HTTP endpoint (`node.cluster.control_endpoint`).
"""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from warren.admin.background import BackgroundTasks
from warren.node import process
from warren.node.cluster.control_endpoint import STATUS_STOPPED, ControlEndpoint, ControlStatus
from warren.node.cluster.stopped_member import StoppedMember
from warren.node.config.settings import NodeSettings
from warren.node.disk.directory import DataDirectory
from warren.node.http_listeners import HttpListeners
from warren.node.logs import Log
from warren.node.peers.cookie import read_cookie

_ANSWER_S = 0.1


class StoppedNode:
    """From the end of one run to the beginning of the next, or to the end of the process."""

    def __init__(self, settings: NodeSettings, log: Log, trouble: str) -> None:
        """`trouble`: why the node did not start."""
        self._log = log
        self._directory = DataDirectory(settings.data_dir, settings.broker.node_name)
        self._cookie = read_cookie(settings.cluster)
        tasks = BackgroundTasks(log)
        self._http = HttpListeners(settings.http, settings.tls_handshake_timeout_ms / 1000, log, tasks)
        self._member = StoppedMember(settings, self._directory, log, tasks)
        self._status = ControlStatus(settings.broker.node_name, STATUS_STOPPED, trouble, self._verbs())

    def close(self) -> None:
        self._directory.close()

    async def run(self) -> bool:
        """Returns whether the node is to start."""
        loop = asyncio.get_running_loop()
        self._start: asyncio.Future[bool] = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._finish, False)
        await self._http.serve_early(ControlEndpoint(self._status, self._cookie))
        self._log.info("app.stopped", name=self._status.name, http=self._http.address())
        if self._status.trouble:
            self._log.critical("app.not_started", reason=self._status.trouble)
        self._log.settle()
        # the service is as ready as it will be: systemd must not end it for not becoming ready
        process.notify_ready(f"{self._status.name} is stopped, and waits for 'warren ctl start_app'")
        start = await self._start
        self._http.close()
        self._http.drop()
        return start

    def _finish(self, start: bool) -> None:
        if not self._start.done():
            self._start.set_result(start)

    def _verbs(self) -> dict[str, Any]:
        return {
            "start_app": self._start_app,
            "stop": self._stop,
            "stop_app": self._stay,
            "join_cluster": self._join,
            "reset": self._reset,
            "force_reset": self._force_reset,
            "change_cluster_node_type": self._change_kind,
            "forget_cluster_node": self._forget,
            "rename_cluster_node": self._rename,
        }

    async def _start_app(self, arguments: Mapping[str, Any]) -> None:
        # the reply to the operator goes out first
        asyncio.get_running_loop().call_later(_ANSWER_S, self._finish, True)

    async def _stop(self, arguments: Mapping[str, Any]) -> None:
        asyncio.get_running_loop().call_later(_ANSWER_S, self._finish, False)

    async def _stay(self, arguments: Mapping[str, Any]) -> None:
        """The node is already stopped."""

    async def _join(self, arguments: Mapping[str, Any]) -> None:
        await self._member.join(str(arguments["node"]), str(arguments["kind"]))
        self._status.trouble = ""

    async def _reset(self, arguments: Mapping[str, Any]) -> None:
        await self._member.reset()
        self._status.trouble = ""

    async def _force_reset(self, arguments: Mapping[str, Any]) -> None:
        await self._member.force_reset()
        self._status.trouble = ""

    async def _change_kind(self, arguments: Mapping[str, Any]) -> None:
        await self._member.change_kind(str(arguments["kind"]))

    async def _forget(self, arguments: Mapping[str, Any]) -> None:
        await self._member.forget(str(arguments["node"]), bool(arguments["offline"]))

    async def _rename(self, arguments: Mapping[str, Any]) -> None:
        self._status.name = await self._member.rename(str(arguments["old"]), str(arguments["new"]))
