"""Runs a command where the network holds nothing but the broker.

Some suites call fixed addresses of their own, so each runs in a network namespace with only a loopback interface.
The process started there (`jail_entry.py`) brings the loopback up, opens listeners on ports 5672 and 15672, and
passes the listening sockets out over a Unix socket: a socket stays in the namespace in which it was made. The forwarder
here accepts on them and connects to the broker outside.

The forwarder passes on an end of stream as a half-close and a reset as a reset, in both directions, and never merges
bytes with either. Two differences remain: the broker sees another peer port, and a refused connection looks accepted,
then reset.

Not here: the commands that run inside (`suites.py`).
"""

import asyncio
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from node import Broker
from suites import BROKER_PORT, HTTP_PORT

ENTRY = Path(__file__).resolve().parent / "jail_entry.py"
TIME_WAS_UP = 124
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def missing_prerequisite() -> str:
    """A sentence about the missing requirement of a jail; empty if all are met."""
    if shutil.which("unshare") is None:
        return "needs the `unshare` command (Debian package util-linux) to give each suite a network of its own"
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"needs root to give each suite a network of its own ({made.stderr.strip() or 'unshare failed'})"
    return ""


async def run_in_jail(
    command: Sequence[str],
    broker: Broker,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    output: Path,
    limit_s: float,
) -> int:
    """The command's exit status; TIME_WAS_UP if it was ended because its time was up."""
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with inside, outside, output.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
            sys.executable, str(ENTRY), str(inside.fileno()), f"{BROKER_PORT},{HTTP_PORT}", *command,
            cwd=cwd, env={**os.environ, **environment}, pass_fds=(inside.fileno(),),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        inside.close()
        forwarder = asyncio.create_task(_forward(outside, broker))
        try:
            return await asyncio.wait_for(process.wait(), limit_s)
        except TimeoutError:
            return TIME_WAS_UP
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            forwarder.cancel()
            await asyncio.gather(forwarder, return_exceptions=True)


async def _forward(handover: socket.socket, broker: Broker) -> None:
    loop = asyncio.get_running_loop()
    _, descriptors, _, _ = await loop.run_in_executor(None, socket.recv_fds, handover, 16, 8)
    listeners = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    handover.sendall(b"go")
    try:
        async with asyncio.TaskGroup() as tasks:
            for listener in listeners:
                listener.setblocking(False)
                target = broker.amqp if listener.getsockname()[1] == BROKER_PORT else broker.http
                tasks.create_task(_accept(listener, target))
    finally:
        for listener in listeners:
            listener.close()


async def _accept(listener: socket.socket, target: tuple[str, int]) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as links:
        while True:
            client, _ = await loop.sock_accept(listener)
            links.create_task(_link(client, target))


async def _link(client: socket.socket, target: tuple[str, int]) -> None:
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    for end in (client, server):
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await loop.sock_connect(server, target)
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_carry(client, server))
            directions.create_task(_carry(server, client))
    except* OSError:
        # One side was reset: the other must see a reset too, not an orderly end.
        for end in (client, server):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    finally:
        client.close()
        server.close()


async def _carry(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while chunk := await loop.sock_recv(source, 262_144):
        await loop.sock_sendall(target, chunk)
    target.shutdown(socket.SHUT_WR)
