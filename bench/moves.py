"""Moves from RabbitMQ to a node with the command `warren migrate`, and a check that every number arrived in order.

Not here: how to run it (`bench/migrate`).
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from measure import machine, progress

from tests.migrating.moving import Command, Moving
from tests.migrating.numbers import DIGITS, Consumer, Publisher
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.client import Message, Properties

QUEUES = ("orders", "bills", "letters")
SHARES = (0.7, 0.2, 0.1)
CHUNK = 10_000
MOVE_DEADLINE_S = 3600.0


def measure(count: int, size_bytes: int, cases: Sequence[str]) -> int:
    print(f"{machine()}. {count:,} persistent messages of {size_bytes} B, durable queues.\n")
    print("| case | what | figure |\n|---|---|---:|")
    lost = 0
    for case in cases:
        with _brokers() as moving:
            lost += CASES[case](moving, count, size_bytes)
    if lost:
        print(f"migrate: {lost} messages are missing, or came out of order", file=sys.stderr)
    return 1 if lost else 0


def _still(moving: Moving, count: int, size_bytes: int) -> int:
    counts = [int(count * share) for share in SHARES]
    for queue, number in zip(QUEUES, counts, strict=True):
        _fill(moving, queue, number, size_bytes)
    begun_s = time.monotonic()
    command = Command(moving.arguments(), MOVE_DEADLINE_S)
    command.await_line("definitions brought")
    carrying_s = time.monotonic()
    command.await_line("counting")
    carried_s = time.monotonic() - carrying_s
    code, err = command.end()
    _show("still", "the whole command", f"{time.monotonic() - begun_s:.1f} s, exit code {code}")
    _show("still", "contents carried", f"{carried_s:.1f} s, {sum(counts) / carried_s:,.0f} messages/s")
    matching = sum("it matches" in line for line in command.out.splitlines())
    _show("still", "queues whose count matches", f"{matching} of {len(QUEUES)}")
    sys.stderr.write(err)
    wrong = 0
    for queue, number in zip(QUEUES, counts, strict=True):
        consumer = Consumer(queue)
        consumer.start(moving.url)
        consumer.await_number(number - 1)
        consumer.stop()
        wrong += _judge("still", queue, consumer.taken, number)
    return wrong + (code != 0)


def _led(moving: Moving, count: int, size_bytes: int) -> int:
    queue = QUEUES[0]
    _fill(moving, queue, count, size_bytes)
    publisher, consumer = Publisher(queue, count), Consumer(queue)
    publisher.start(moving.source_url)
    consumer.start(moving.source_url)
    consumer.await_number(count // 100)
    command = Command(moving.arguments("--first", "consumers"), MOVE_DEADLINE_S)
    command.await_line("step 1")
    consumer.stop()
    consumers_stopped_s, before = time.monotonic(), len(consumer.taken)
    command.press_enter()
    command.await_line("step 2")
    consumer.start(moving.url)
    while len(consumer.taken) == before:
        time.sleep(0.001)
    consumers_idle_s = time.monotonic() - consumers_stopped_s
    consumer.await_number(count)
    command.press_enter()
    command.await_line("step 3")
    publisher.stop()
    publishers_stopped_s, at_rabbitmq = time.monotonic(), publisher.sent
    command.press_enter()
    command.await_line("everything has arrived")
    publisher.start(moving.url)
    while publisher.sent == at_rabbitmq:
        time.sleep(0.001)
    publishers_idle_s = time.monotonic() - publishers_stopped_s
    code, err = command.end()
    consumer.await_number(at_rabbitmq + 1000)
    publisher.stop()
    consumer.await_number(publisher.sent - 1)
    consumer.stop()
    _show("led", "published to RabbitMQ meanwhile", f"{at_rabbitmq - count:,}")
    _show("led", "consumers stood still", f"{consumers_idle_s:.1f} s")
    _show("led", "publishers stood still", f"{publishers_idle_s:.1f} s")
    _show("led", "exit code", str(code))
    sys.stderr.write(err)
    return _judge("led", queue, consumer.taken, publisher.sent) + (code != 0)


def _fill(moving: Moving, queue: str, count: int, size_bytes: int) -> None:
    progress(f"filling {queue} with {count:,}")
    tail = b" " * (size_bytes - DIGITS)
    channel = moving.at_source()
    channel.declare_queue(queue, durable=True)
    persistent = Properties(delivery_mode=2)
    for first in range(0, count, CHUNK):
        numbers = range(first, min(count, first + CHUNK))
        channel.send_many([Message(b"%012d" % each + tail, persistent) for each in numbers], routing_key=queue)
    channel.wait_for_confirms()


def _judge(case: str, queue: str, taken: list[int], count: int) -> int:
    """The count of missing and misplaced numbers; prints those that came twice."""
    firsts = list(dict.fromkeys(taken))
    missing = count - len(firsts)
    disordered = sum(one > other for one, other in pairwise(firsts))
    _show(case, f"{queue}: missing, out of order, twice", f"{missing}, {disordered}, {len(taken) - len(firsts)}")
    return missing + disordered


def _show(case: str, what: str, figure: str) -> None:
    print(f"| {case} | {what} | {figure} |", flush=True)


@contextlib.contextmanager
def _brokers() -> Iterator[Moving]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warren-bench-")))
        server = RabbitMQ(plugins=("rabbitmq_management",))
        stack.callback(server.close)
        node = NodeProcess(folder)
        stack.callback(node.stop)
        yield stack.enter_context(Moving(server, node))


CASES = {"still": _still, "led": _led}
