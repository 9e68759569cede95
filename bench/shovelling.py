"""A backlog that a shovel moves from one broker to another of the same kind, and the time this takes.

Not here: how to run it (`bench/shovels`).
"""

import asyncio
import base64
import contextlib
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measure import cpu_s, machine, progress

from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.client import Message, Properties, connect

SOURCE, GOAL = "bench.source", "bench.goal"
PLUGINS = ("rabbitmq_shovel", "rabbitmq_shovel_management")
LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class End:
    """A broker at one end, with its process."""

    url: str
    http_url: str
    pid: int


@dataclass(frozen=True)
class Carried:
    seconds: float
    cpu_seconds: float


def measure(count: int, size_bytes: int, kinds: list[str], ack_modes: list[str]) -> int:
    print(f"{machine()}. Bodies of {size_bytes} B, persistent, durable queues, prefetch 1,000.\n")
    print("| shovel of | ack-mode | messages/s | CPU of both brokers for 10,000 |\n|---|---|---:|---:|")
    for kind in kinds:
        progress(kind)
        with _ends(kind) as (source, destination):
            for ack_mode in ack_modes:
                carried = asyncio.run(_carried(source, destination, count, size_bytes, ack_mode))
                cpu = carried.cpu_seconds / count * 10_000
                print(f"| {kind} | {ack_mode} | {count / carried.seconds:,.0f} | {cpu:.2f} s |", flush=True)
    return 0


@contextlib.contextmanager
def _ends(kind: str) -> Iterator[tuple[End, End]]:
    with contextlib.ExitStack() as stack:
        if kind == "RabbitMQ":
            servers = [RabbitMQ(plugins=PLUGINS) for _ in range(2)]
            for server in servers:
                stack.callback(server.close)
            ends = [End(server.url, server.http_url, server.pid) for server in servers]
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warren-bench-")))
            nodes = [NodeProcess(folder / name, "--name", f"{name}@localhost") for name in ("near", "far")]
            for node in nodes:
                stack.callback(node.stop)
            ends = [End(_url(node.amqp), f"http://{_shown(node.addresses['http'])}", node.pid) for node in nodes]
        yield ends[0], ends[1]


def _url(address: tuple[str, int]) -> str:
    return f"amqp://guest:guest@{_shown(address)}/%2F"


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


async def _carried(source: End, destination: End, count: int, size_bytes: int, ack_mode: str) -> Carried:
    """The time from the definition of the shovel, at the destination, until all messages are there."""
    async with await connect(source.url) as here, await connect(destination.url) as there:
        filling, looking = await here.channel(confirms=True), await there.channel()
        await filling.declare_queue(SOURCE, durable=True)
        await looking.declare_queue(GOAL, durable=True)
        await filling.send_many([Message(bytes(size_bytes), Properties(delivery_mode=2))] * count, routing_key=SOURCE)
        await filling.wait_for_confirms()
        pids = (source.pid, destination.pid)
        used, began = cpu_s(*pids), time.monotonic()
        await asyncio.to_thread(_define, destination, source.url, ack_mode)
        while (await looking.declare_queue(GOAL, durable=True)).messages < count:
            await asyncio.sleep(LOOK_EVERY_S)
        carried = Carried(time.monotonic() - began, cpu_s(*pids) - used)
        await asyncio.to_thread(_ask, destination, "DELETE", None)
        await filling.delete_queue(SOURCE)
        await looking.delete_queue(GOAL)
        return carried


def _define(destination: End, source_url: str, ack_mode: str) -> None:
    value = {
        "src-protocol": "amqp091",
        "src-uri": source_url,
        "src-queue": SOURCE,
        "dest-protocol": "amqp091",
        "dest-uri": "amqp://",
        "dest-queue": GOAL,
        "ack-mode": ack_mode,
    }
    _ask(destination, "PUT", {"value": value})


def _ask(broker: End, method: str, document: object) -> None:
    login = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(
        f"{broker.http_url}/api/parameters/shovel/%2F/bench",
        None if document is None else json.dumps(document).encode(),
        {"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        method=method,
    )
    urllib.request.urlopen(request, timeout=30).close()


if __name__ == "__main__":
    sys.exit("run bench/shovels")
