"""A day of orders and payments through a cluster that loses a node, and the reconciliation of the books afterwards.

    make demo                                   the whole demo
    python examples/orders/demo.py --orders 500 --keep DIR

Exits with 0 if the reconciliation found exactly the planted faults, and all of them were corrected; otherwise with 1
and the reason. Its files are in a directory of its own, which is deleted at the end unless --keep is given.

Not here: the programs (`shop`, `till`, `bank`), the broker (`cluster`), the jobs (`pipeline`).
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import cluster as brokers
from bank import Bank, Books, Corrections
from cluster import Cluster, CommandFailed
from faults import Planted, planted
from narrator import Narrator
from pipeline import JobFailed, Pipeline, statuses
from services import Service
from shop import DAY, Shop
from till import Till

from warren.errors import WarrenError

ORDERS = 20_000
ORDERS_MIN = 200
DEADLINE_S = 180.0
HERE = Path(__file__).resolve().parent
DATE = DAY.date().isoformat()


class Unbalanced(Exception):
    """The reconciliation did not find the planted faults, or a fault was not corrected."""


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    narrator = Narrator()
    with _directory(options.keep) as directory:
        os.chdir(directory)
        try:
            with Cluster(directory / "cluster") as nodes:
                Demo(narrator, nodes, options.orders).run()
        except (CommandFailed, JobFailed, Unbalanced, WarrenError) as reason:
            print(f"demo: {reason}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("demo: interrupted; the nodes are stopped", file=sys.stderr)
            return 1
        finally:
            os.chdir(HERE)
        if options.keep:
            narrator.say(f"everything is in {directory}: found/report.html, mended/report.html, report.html")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A day of orders and payments, with faults, and its reconciliation.")
    parser.add_argument("--orders", type=int, default=ORDERS, help=f"how many (default {ORDERS:,})")
    parser.add_argument("--keep", metavar="DIR", help="a new directory for all files, which are then kept")
    options = parser.parse_args()
    if options.orders < ORDERS_MIN:
        parser.error(f"--orders is at least {ORDERS_MIN}")
    return options


@contextlib.contextmanager
def _directory(kept: str | None) -> Iterator[Path]:
    if kept is not None:
        path = Path(kept).resolve()
        path.mkdir(parents=True)
        yield path
        return
    path = Path(tempfile.mkdtemp(prefix="warren-demo-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Demo:
    """The steps of the demo, in order."""

    def __init__(self, narrator: Narrator, nodes: Cluster, order_count: int) -> None:
        self._narrator = narrator
        self._nodes = nodes
        self._order_count = order_count
        self._planted: Planted = planted(order_count)
        self._books = Books()
        self._pipeline = Pipeline(narrator)

    def run(self) -> None:
        shop = self._trade()
        self._write_ledgers(shop)
        self._archive()
        self._reconcile()
        self._compensate()
        self._reconcile_again()
        self._report()
        self._narrator.say("everything balances")

    # -- the day

    def _trade(self) -> Shop:
        say, nodes = self._narrator.say, self._nodes
        say("starting a cluster of three nodes")
        nodes.up()
        say("it is ready")
        nodes.declare()
        nodes.trace()
        say("its queues are mirrored to all nodes; the Firehose of each node goes to the stream 'trace'")
        shop = Shop(nodes.patient_url(1, 2, 3), self._order_count, self._planted)
        url = nodes.patient_url
        with Till(url(2, 3, 1), self._planted) as till, Bank(url(3, 2, 1), self._books) as bank:
            say(f"the shop publishes {self._order_count:,} orders, the till pays them, the bank books the payments")
            self._tell_faults()
            began = time.monotonic()
            self._publish_and_lose_the_master(shop)
            routable = shop.routable()
            self._await("the till is done", lambda: routable <= till.handled, till, bank)
            self._await("the bank is done", lambda: till.payments <= self._books.payments(), till, bank)
            took_s = time.monotonic() - began
        say(f"every order is confirmed, and every message in a queue is handled, after {took_s:.1f} s")
        self._narrator.add(f"connections lost and made again: {shop.reconnect_count + till.reconnect_count}")
        nodes.start_master_again()
        nodes.await_mirrors("orders", "payments", brokers.TRACE_STREAM)
        say("the killed node is back, and its mirrors are in sync")
        return shop

    def _tell_faults(self) -> None:
        for fault, count in Counter(self._planted.by_order.values()).items():
            self._narrator.add(f"planted {count} times: {fault}")

    def _publish_and_lose_the_master(self, shop: Shop) -> None:
        """Publish all orders, and kill the node that has the master of every queue while some are underway."""
        master = self._nodes.master_of("orders")
        lives = True

        def underway(confirmed_count: int) -> None:
            nonlocal lives
            if lives and confirmed_count * 3 >= self._order_count:
                lives = False
                self._nodes.kill_master()
                self._narrator.say(
                    f"{confirmed_count:,} orders are confirmed; killed {master}, the master, with SIGKILL"
                )

        shop.publish_all(underway)
        self._narrator.say(f"the shop has confirms for all orders; the master is {self._nodes.master_of('orders')} now")

    def _await(self, what: str, condition: Callable[[], bool], *services: Service) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            for service in services:
                if service.failure is not None:
                    raise service.failure
            if time.monotonic() > deadline:
                raise Unbalanced(f"not true after {DEADLINE_S:.0f} s: {what}")
            time.sleep(0.02)

    def _write_ledgers(self, shop: Shop) -> None:
        shop.write_ledger(Path("orders.csv"))
        self._books.write_ledger(Path("payments.csv"))
        shutil.copy(HERE / "ledgers.toml", ".")
        self._narrator.say(f"the ledgers of {DATE} are written: orders.csv by the shop, payments.csv by the bank")

    # -- the jobs of the pipeline

    def _archive(self) -> None:
        count = self._nodes.traced_count()
        self._narrator.say(f"archiving the trace, {count:,} events, in a lake")
        self._pipeline.run("trace", "--url", self._url, "--stream", brokers.TRACE_STREAM, "--lake", "lake")

    def _reconcile(self) -> None:
        self._narrator.say("reconciling: the bank's ledger against the shop's, which is the authority")
        self._pipeline.run("reconcile", "ledgers.toml", "--day", DATE, "--out", "found", expected=1)
        found, expected = statuses(Path("found")), self._planted.as_found()
        if found != expected:
            wrong = sorted(set(found.items()) ^ set(expected.items()))
            raise Unbalanced(
                f"the reconciliation found {len(found)} differences, and these are not as planted: {wrong}"
            )
        told = ", ".join(f"{count} {status}" for status, count in sorted(Counter(found.values()).items()))
        self._narrator.say(f"it found exactly what was planted: {told}")

    def _compensate(self) -> None:
        words = ("compensate", "found", "--state", "sent", "--url", self._url, "--routing-key", brokers.CORRECTIONS)
        self._narrator.say("the corrections, without sending them:")
        self._pipeline.run(*words, "--dry-run")
        self._narrator.say("sending the corrections; the bank applies them")
        with Corrections(self._nodes.patient_url(2, 3, 1), self._books) as corrections:
            self._pipeline.run(*words, "--yes")
            faults = len(self._planted.by_order)
            self._await("the bank has applied the corrections", lambda: len(corrections.made) == faults, corrections)
        self._narrator.say(f"{len(corrections.made)} corrections are applied; sending them once more:")
        self._pipeline.run(*words, "--yes")
        if self._nodes.empty(brokers.CORRECTIONS):
            raise Unbalanced("corrections that were sent before were sent again")
        self._narrator.say("nothing was sent twice")

    def _reconcile_again(self) -> None:
        self._books.write_ledger(Path("payments.csv"))
        self._narrator.say("reconciling again")
        self._pipeline.run("reconcile", "ledgers.toml", "--day", DATE, "--out", "mended")
        self._narrator.say("the ledgers agree")

    def _report(self) -> None:
        refused = self._nodes.empty(brokers.DEAD)
        self._narrator.say(f"an operator removes the {refused} rejected orders from '{brokers.DEAD}'")
        self._archive()
        self._narrator.say("auditing the broker: has any queue lost, repeated or reordered a message?")
        self._pipeline.run("audit", "--lake", "lake", "--http", self._nodes.http(2))
        self._narrator.say("writing a page about the day's traffic")
        self._pipeline.run("report", "--lake", "lake", "--out", "report.html")

    @property
    def _url(self) -> str:
        return self._nodes.url(2, 3, 1)


if __name__ == "__main__":
    sys.exit(main())
