#!/usr/bin/env python3
"""Loads an AMQP broker and reports rate, CPU and latency.

    bench/load.py --amqp 127.0.0.1:5672 --case transient-autoack --size 16 --seconds 3 --pid $(pidof -s beam.smp)
    bench/load.py --amqp 127.0.0.1:5672 --case topic-1000 --verify

One process publishes, one consumes, over raw sockets with frames made beforehand; on a core of their own they outrun
any broker. With --verify every delivery is parsed and its tag, redelivered bit, number and filling are checked,
which costs the generator its speed. The rate counts deliveries, from the first publish to the last delivery.
`per_cpu_s` is deliveries per CPU second of --pid. Exit 1 if a message is missing or wrong.

Not here: the cases (`plan.py`), the loops (`publisher.py`, `subscriber.py`).
"""

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from multiprocessing.connection import Connection as Pipe
from typing import Any

from measure import cpu_s, percentile_ms
from plan import CASES, Count, Plan
from publisher import Producer, Published, publish_all
from subscriber import CheckingConsumer, Consumed, Consumer, consume_all
from wire import Connection, declare_queue, delete_queue

Address = tuple[str, int]
forking = multiprocessing.get_context("fork")


class LoadFailed(Exception):
    """A run without figures; the message says what went wrong in the broker or the generator."""


@dataclass(frozen=True)
class Result:
    case: str
    size_bytes: int
    published: int
    received: int
    rate: float
    per_cpu_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    confirm_p50_ms: float | None
    confirm_p99_ms: float | None
    faults: list[str]


@dataclass(frozen=True)
class Places:
    """Addresses for declaring queues and for clients; queue and client n use address n, modulo the count."""

    homes: tuple[Address, ...]
    clients: tuple[Address, ...]

    def home(self, queue: int) -> Address:
        return self.homes[queue % len(self.homes)]

    def client(self, number: int) -> Address:
        return self.clients[number % len(self.clients)]


def run(plan: Plan, address: Address, pid: int | None = None) -> Result:
    """One run, from declaring to deleting."""
    return run_spread(plan, Places((address,), (address,)), (pid,) if pid else ())


def run_spread(plan: Plan, places: Places, pids: Sequence[int]) -> Result:
    """One run against a cluster; `pids` are its processes."""
    if plan.fault():
        raise LoadFailed(plan.fault())
    with contextlib.ExitStack() as held:
        controls = {home: held.enter_context(contextlib.closing(Connection(home))) for home in places.homes}
        _set_up(plan, places, controls)
        held.callback(_tear_down, plan, places, controls)
        return _measure(plan, places, pids)


Controls = dict[Address, Connection]


def _set_up(plan: Plan, places: Places, controls: Controls) -> None:
    _tear_down(plan, places, controls)
    names = [plan.queue_name(number) for number in range(plan.queues)]
    for home, control in controls.items():
        own = [name for number, name in enumerate(names) if places.home(number) == home]
        control.each([declare_queue(name, durable=plan.persistent) for name in own], 50, 11)
    if plan.exchange:
        first = controls[places.homes[0]]
        first.declare_exchange(plan.exchange_name, plan.exchange)
        for queue, key in plan.binding_keys():
            first.bind(names[queue], plan.exchange_name, key)


def _tear_down(plan: Plan, places: Places, controls: Controls) -> None:
    first = controls[places.homes[0]]
    first.each([delete_queue(plan.queue_name(number)) for number in range(plan.queues)], 50, 41)
    if plan.exchange:
        first.delete_exchange(plan.exchange_name)


class Worker:
    """A process of the generator: reports once it is connected, starts when told, ends with its result."""

    def __init__(self, job: Any, *arguments: Any) -> None:
        self._pipe, theirs = forking.Pipe()
        self._process = forking.Process(target=_work, args=(theirs, job, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def await_connected(self) -> None:
        self._receive(60)

    def start(self) -> None:
        self._pipe.send("start")

    def result(self, limit_s: float) -> Any:
        return self._receive(limit_s)

    def end(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def _receive(self, limit_s: float) -> Any:
        if not self._pipe.poll(limit_s):
            raise LoadFailed(f"no answer from the generator within {limit_s:.0f} s")
        try:
            kind, content = self._pipe.recv()
        except EOFError:
            raise LoadFailed("a process of the generator died") from None
        if kind == "error":
            raise LoadFailed(content)
        return content


def _work(pipe: Pipe, job: Any, *arguments: Any) -> None:
    try:
        proceed = job(*arguments)
        pipe.send(("connected", None))
        pipe.recv()
        pipe.send(("result", proceed()))
    except Exception:
        pipe.send(("error", traceback.format_exc(limit=-3)))


def _publishing(plan: Plan, places: Places, delivered: Count) -> Any:
    producers = [Producer(plan, places.client(number), number) for number in range(plan.producers)]
    return lambda: publish_all(plan, producers, delivered)


def _consuming(plan: Plan, places: Places, delivered: Count, expected: Count) -> Any:
    kind = CheckingConsumer if plan.verify else Consumer
    consumers = [kind(plan, places.client(number), number) for number in range(plan.consumers)]
    return lambda: consume_all(consumers, delivered, expected)


def _measure(plan: Plan, places: Places, pids: Sequence[int]) -> Result:
    delivered: Any = forking.RawValue(ctypes.c_longlong, 0)
    expected: Any = forking.RawValue(ctypes.c_longlong, -1)
    subscriber = Worker(_consuming, plan, places, delivered, expected)
    publisher = Worker(_publishing, plan, places, delivered)
    try:
        for worker in (subscriber, publisher):
            worker.await_connected()
        cpu_before_s = cpu_s(*pids)
        subscriber.start()
        publisher.start()
        limit_s = plan.seconds * 5 + 60
        published: Published = publisher.result(limit_s)
        expected.value = published.sent * plan.copies
        consumed: Consumed = subscriber.result(limit_s)
        used_s = cpu_s(*pids) - cpu_before_s
    finally:
        subscriber.end()
        publisher.end()
    return _result(plan, published, consumed, used_s)


@dataclass(frozen=True)
class Drained:
    publish_rate: float
    height: int
    """What the caller's gauge said between publishing and draining."""
    drain_rate: float
    tenth_rates: list[float]


def publish_then_drain(plan: Plan, address: Address, gauge: Callable[[], int]) -> Drained:
    """Publish the plan's count without a consumer, then consume it all."""
    places = Places((address,), (address,))
    controls = {address: Connection(address)}
    _set_up(plan, places, controls)
    workers: list[Worker] = []
    try:
        nothing: Any = forking.RawValue(ctypes.c_longlong, 0)
        workers.append(Worker(_publishing, plan, places, nothing))
        published: Published = _whole_result(workers[-1], plan)
        height = gauge()
        expected: Any = forking.RawValue(ctypes.c_longlong, published.sent)
        workers.append(Worker(_consuming, plan, places, nothing, expected))
        began_ns = time.monotonic_ns()
        consumed: Consumed = _whole_result(workers[-1], plan)
    finally:
        for worker in workers:
            worker.end()
        _tear_down(plan, places, controls)
        controls[address].close()
    if consumed.received != published.sent:
        raise LoadFailed(f"{published.sent - consumed.received} messages of the backlog are missing")
    tenths_s = [(end - start) / 1e9 for start, end in pairwise([began_ns, *consumed.milestones_ns])]
    return Drained(
        publish_rate=published.sent / ((published.ended_ns - published.began_ns) / 1e9),
        height=height,
        drain_rate=published.sent / sum(tenths_s),
        tenth_rates=[published.sent / 10 / tenth_s for tenth_s in tenths_s],
    )


def _whole_result(worker: Worker, plan: Plan) -> Any:
    worker.await_connected()
    worker.start()
    return worker.result(plan.seconds)


def _result(plan: Plan, published: Published, consumed: Consumed, used_s: float) -> Result:
    faults = list(consumed.faults)
    missing = published.sent * plan.copies - consumed.received
    if missing:
        faults.append(f"{missing} deliveries missing of {published.sent * plan.copies}")
    took_s = max(consumed.last_ns - published.began_ns, 1) / 1e9
    return Result(
        case=plan.case,
        size_bytes=plan.size_bytes,
        published=published.sent,
        received=consumed.received,
        rate=consumed.received / took_s,
        per_cpu_s=consumed.received / used_s if used_s else None,
        p50_ms=percentile_ms(consumed.samples, 50),
        p99_ms=percentile_ms(consumed.samples, 99),
        confirm_p50_ms=percentile_ms(published.confirm_samples, 50),
        confirm_p99_ms=percentile_ms(published.confirm_samples, 99),
        faults=faults,
    )


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--amqp", type=address_of, default=("127.0.0.1", 5672), metavar="HOST:PORT")
    parser.add_argument("--case", choices=CASES, default="transient-autoack")
    parser.add_argument("--size", type=int, default=16, metavar="BYTES", help="of a body (default 16)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of publishing (default 3)")
    parser.add_argument("--verify", action="store_true", help="check every delivery")
    parser.add_argument("--pid", type=int, help="the broker's process, to report its CPU")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    return parser.parse_args()


def main() -> int:
    chosen = _arguments()
    plan = replace(CASES[chosen.case], size_bytes=chosen.size, seconds=chosen.seconds, verify=chosen.verify)
    try:
        result = run(plan, chosen.amqp, chosen.pid)
    except (LoadFailed, OSError) as reason:
        print(f"load: {reason}", file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps(asdict(result)))
    else:
        for name, value in asdict(result).items():
            print(f"{name:16} {value:,.3f}" if isinstance(value, float) else f"{name:16} {value}")
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
