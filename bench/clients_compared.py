"""Clients side by side: each program in a process of its own, one after the other, round after round.

Not here: the programs (`clients_ours.py`, `clients_others.py`), how to run it (`bench/clients`).
"""

import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from brokers import Broker, NotAvailable, warren
from clients_work import CONTENT_TYPE
from measure import machine, progress

from tests.support.rabbitmq import RabbitMQ
from warren.client import Properties, blocking

QUEUE = "bench.clients"
FULL = {"x-max-length": 1_000}
"""Queue limit in a publishing case: without a consumer, the queue keeps only the latest messages."""
DEADLINE_S = 120
HERE = pathlib.Path(__file__).resolve().parent
OURS, OTHERS = HERE / "clients_ours.py", HERE / "clients_others.py"


@dataclass
class Contestant:
    """One client's way of publishing or consuming."""

    client: str
    way: str
    program: str
    ours: bool = False
    # how many messages wait for a consumer: as many as it may manage in the time
    waiting: int = 0
    per_cpu_s: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)

    @property
    def cpu_rate(self) -> float:
        return statistics.median(self.per_cpu_s)


def cases() -> dict[str, list[Contestant]]:
    return {
        "Publishing, each confirm waited for": [
            Contestant("Warren", "`await publish`", "publish-each", True),
            Contestant("Warren, blocking", "`publish`", "blocking-publish-each", True),
            Contestant("Warren, recovering transport", "`await publish`", "transport-publish-each", True),
            Contestant("aio-pika", "`await publish`", "aio-publish-each"),
            Contestant("pika, blocking", "`basic_publish`", "pika-publish-each"),
            Contestant("kombu", "`publish`", "kombu-publish-each"),
        ],
        "Publishing, a thousand confirms under way": [
            Contestant("Warren", "`send_many`", "send-many", True),
            Contestant("Warren", "`await send`, one by one", "send-each", True),
            Contestant("Warren", "`publish`, gathered", "publish-gathered", True),
            Contestant("Warren, blocking", "`send_many`", "blocking-send-many", True),
            Contestant("Warren, recovering transport", "`publish` of a thousand", "transport-publish-many", True),
            Contestant("Warren, recovering transport", "`publish`, gathered", "transport-publish-gathered", True),
            Contestant("aio-pika", "`publish`, gathered", "aio-publish-gathered"),
            Contestant("pika", "callbacks", "pika-callbacks-publish"),
            Contestant("kombu", "has one at a time", "kombu-publish-each"),
        ],
        "Consuming, each message acked": [
            Contestant("Warren", "`async for`", "consume", True, 400_000),
            Contestant("Warren, blocking", "`for`", "blocking-consume", True, 400_000),
            Contestant("Warren", "`Listener`", "transport-consume", True, 200_000),
            Contestant("aio-pika", "`consume`", "aio-consume", False, 30_000),
            Contestant("pika, blocking", "`basic_consume`", "pika-consume", False, 50_000),
            Contestant("pika", "callbacks", "pika-callbacks-consume", False, 100_000),
            Contestant("kombu", "`Consumer`", "kombu-consume", False, 50_000),
        ],
    }


@contextlib.contextmanager
def rabbitmq() -> Iterator[Broker]:
    """A RabbitMQ; the one that `make setup` unpacked is good enough."""
    server = RabbitMQ()
    try:
        yield Broker("RabbitMQ", server.address, pid=0)
    finally:
        server.close()


BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[Broker]]] = {"warren": warren, "rabbitmq": rabbitmq}


def measure(broker_name: str, rounds: int, seconds: float, size_bytes: int) -> int:
    try:
        with BROKERS[broker_name]() as broker:
            print(f"{machine()}; {broker.name}; bodies of {size_bytes} B; {rounds} rounds of {seconds:g} s.")
            for title, contestants in cases().items():
                _compete(broker, title, contestants, rounds, seconds, size_bytes)
                _show(title, contestants)
    except (NotAvailable, OSError, subprocess.SubprocessError) as reason:
        print(f"clients: {reason}", file=sys.stderr)
        return 1
    return 0


def _compete(
    broker: Broker, title: str, contestants: list[Contestant], rounds: int, seconds: float, size_bytes: int
) -> None:
    host, port = broker.address
    url = f"amqp://guest:guest@{host}:{port}/%2F"
    for number in range(1, rounds + 1):
        for contestant in contestants:
            progress(f"{title}, round {number}: {contestant.client}, {contestant.way}")
            _prepare(url, contestant.waiting, size_bytes)
            program = OURS if contestant.ours else OTHERS
            arguments = (contestant.program, url, QUEUE, seconds, size_bytes, contestant.waiting)
            command = [sys.executable, str(program), *map(str, arguments)]
            found = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            if found.returncode != 0:
                raise OSError(f"{contestant.program} failed: {found.stderr[-600:]}")
            figures = json.loads(found.stdout)
            contestant.per_cpu_s.append(figures["messages"] / figures["cpu_seconds"])
            contestant.per_s.append(figures["messages"] / figures["seconds"])


def _prepare(url: str, waiting: int, size_bytes: int) -> None:
    """Declare the queue again: full for a consumer, nearly empty for a publisher."""
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.delete_queue(QUEUE)
        channel.declare_queue(QUEUE, arguments={} if waiting else FULL)
        properties = Properties(content_type=CONTENT_TYPE, message_id="m-1", delivery_mode=1)
        channel.send_many([b"x" * size_bytes] * waiting, routing_key=QUEUE, properties=properties)
        channel.wait_for_confirms()


def _show(title: str, contestants: list[Contestant]) -> None:
    theirs = [contestant for contestant in contestants if not contestant.ours]
    print(f"\n### {title}\n")
    print("| client | way | per CPU s | CPU | per s | " + " | ".join(f"{each.client}" for each in theirs) + " |")
    print("|---|---|---:|---:|---:|" + "---:|" * len(theirs))
    for contestant in contestants:
        rate = contestant.cpu_rate
        ratios = _ratios(contestant, theirs)
        per_s = statistics.median(contestant.per_s)
        print(
            f"| {contestant.client} | {contestant.way} | {rate:,.0f} | {1e6 / rate:,.1f} µs | {per_s:,.0f} |"
            f" {' | '.join(ratios)} |",
            flush=True,
        )


def _ratios(contestant: Contestant, theirs: Iterable[Contestant]) -> list[str]:
    if not contestant.ours:
        return ["" for _ in theirs]
    return [f"{contestant.cpu_rate / other.cpu_rate:.1f}×" for other in theirs]
