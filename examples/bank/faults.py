"""Random faults in four parallel lanes: processes, brokers, databases, receipts.

Within a lane one fault comes after another, each kind once in random order, then all again. At most one node of the
cluster and one database are down at a time; they come back after some seconds.

Of two processes of the same service, two faults out of three hit the active one: the holder of the lease, or the active
consumer of the queue. A fault that hits no process is not counted.

Receipts are delayed until the delay has an effect: a deposit is confirmed, and a booked withdrawal is struck.

Not here: starting killed processes again (`processes`).
"""

import enum
import operator
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from books import Books
from cluster import Cluster
from databases import Database
from delays import Delays
from narrator import Narrator
from operations import OPERATIONS, QUEUES, RECEIPTS
from processes import Processes

LOOK_UP_S = 0.5
NODE_AWAY_S = (0.5, 6.0)
DATABASE_AWAY_S = (0.5, 5.0)
SLEEP_S = 7.0
"""Longer than the lease of a relay or a chaser."""

TAKEOVER_S = 12.0
"""Within this time a service has an active process again, if a database and a broker are up."""

PURGE_WITHIN_S = 15.0
LATE_WITHIN_S = 120.0
RELAYS = ("teller-relay", "bank-relay")
BOOKING = "bank-booking"
TAKING = "teller-receipts"
CUSTOMERS = "teller-customers"

Kinds = Mapping[str, Callable[[], str]]
"""Each fault by name; the function returns a description, or an empty string if it hit nothing."""


class Activity(enum.StrEnum):
    """The state of the process that a fault hits."""

    AT_WORK = "at work"
    STANDING_BY = "standing by"
    UNKNOWN = "at work or not"


class Faults:
    """Injects faults. `made` counts those that hit, by kind; `at_work` those that hit an active process."""

    def __init__(
        self,
        narrator: Narrator,
        nodes: Cluster,
        databases: list[Database],
        books: Books,
        delays: Delays,
        processes: Processes,
        chance: random.Random,
    ) -> None:
        self.made: Counter[str] = Counter()
        self.at_work: Counter[str] = Counter()
        self._aimed: Counter[str] = Counter()
        self._narrator = narrator
        self._nodes = nodes
        self._databases = databases
        self._books = books
        self._delays = delays
        self._processes = processes
        self._chance = chance
        self._failures: list[Exception] = []
        self._over = threading.Event()

    def go_on_for(self, duration_s: float) -> None:
        """Run until the time is over, a fault fails or a process fails; then wait until running faults have ended."""
        lanes = [
            threading.Thread(target=self._lane, args=(kinds, pauses_s))
            for kinds, pauses_s in (
                (self._of_processes(), (1.0, 5.0)),
                (self._of_brokers(), (4.0, 12.0)),
                (self._of_databases(), (3.0, 9.0)),
                (self._of_receipts(), (10.0, 30.0)),
            )
        ]
        for lane in lanes:
            lane.start()
        try:
            ends_at = time.monotonic() + duration_s
            while not self._over.wait(max(0.0, min(LOOK_UP_S, ends_at - time.monotonic()))):
                self._processes.check()
                if time.monotonic() >= ends_at:
                    break
        finally:
            # also if the run is interrupted: servers that are down come back before they are stopped
            self._over.set()
            for lane in lanes:
                lane.join()
        if self._failures:
            raise self._failures[0]

    def _lane(self, kinds: Kinds, pauses_s: tuple[float, float]) -> None:
        deck: list[str] = []
        try:
            while not self._over.is_set():
                if not deck:
                    deck = self._chance.sample(list(kinds), len(kinds))
                kind = deck.pop()
                told = kinds[kind]()
                self._narrator.say(f"{kind}: {told or 'hit no process, not counted'}")
                self.made[kind] += bool(told)
                self._over.wait(self._chance.uniform(*pauses_s))
        except Exception as trouble:
            self._failures.append(trouble)
            self._over.set()

    def _of_processes(self) -> Kinds:
        return {
            "relay killed": lambda: self._kill_one("relay killed", self._chance.choice(RELAYS)),
            "process paused beyond its lease": self._pause_one,
            "consumer killed": lambda: self._kill_one("consumer killed", BOOKING),
            "receipts' listener and chaser killed": lambda: self._kill_one(
                "receipts' listener and chaser killed", TAKING
            ),
            "teller killed": lambda: self._kill_one("teller killed", CUSTOMERS),
        }

    def _of_brokers(self) -> Kinds:
        return {"broker master killed": self._kill_master, "queue purged by mistake": self._purge}

    def _of_databases(self) -> Kinds:
        return {"database connections cut": self._cut_connections, "database crashed": self._crash_database}

    def _of_receipts(self) -> Kinds:
        return {"receipts delayed": self._delay_receipts}

    def told_of(self, kind: str) -> str:
        return f", {self.at_work[kind]} of them while it was at work" if kind in self.at_work else ""

    def _kill_one(self, kind: str, service: str) -> str:
        name, how = self._aim(kind, service)
        if not self._processes.kill(name):
            return ""
        self.at_work[kind] += how is Activity.AT_WORK
        return f"{name}, {how}"

    def _pause_one(self) -> str:
        kind = "process paused beyond its lease"
        name, how = self._aim(kind, self._chance.choice([*RELAYS, BOOKING, TAKING]))
        if not self._processes.pause(name, SLEEP_S):
            return ""
        self.at_work[kind] += how is Activity.AT_WORK
        return f"{name}, {how}, for {SLEEP_S:.0f} s"

    def _aim(self, kind: str, service: str) -> tuple[str, Activity]:
        """Choose a process of the service, and say whether it is active; processes of customers always are."""
        names = self._processes.names(service)
        if service == CUSTOMERS:
            return self._chance.choice(names), Activity.AT_WORK
        active = self._await_active(service)
        if not active:
            return self._chance.choice(names), Activity.UNKNOWN
        self._aimed[kind] += 1
        if self._aimed[kind] % 3 == 0:
            return next(name for name in names if name != active), Activity.STANDING_BY
        return active, Activity.AT_WORK

    def _await_active(self, service: str) -> str:
        deadline = time.monotonic() + TAKEOVER_S
        while not (name := self._active(service)) and time.monotonic() < deadline and not self._over.wait(0.2):
            pass
        return name

    def _active(self, service: str) -> str:
        if service in RELAYS:
            return self._processes.leader(service, "relay")
        if service == TAKING and self._chance.random() < 0.5:
            return self._processes.leader(service, "chaser")
        return self._nodes.active_consumer_of(OPERATIONS if service == BOOKING else RECEIPTS)

    def _kill_master(self) -> str:
        queue = self._chance.choice(QUEUES)
        node = self._nodes.master_of(queue)
        self._nodes.kill(node)
        time.sleep(away_s := self._chance.uniform(*NODE_AWAY_S))
        self._nodes.start(node)
        return f"{node}, of {queue}, away for {away_s:.1f} s; the master is {self._nodes.master_of(queue)} now"

    def _purge(self) -> str:
        queue = self._chance.choice(QUEUES)
        gone = self._nodes.purge(queue, PURGE_WITHIN_S)
        return f"{queue}, of {gone} messages" if gone else ""

    def _delay_receipts(self) -> str:
        began, before = time.monotonic(), self._books.settlings()
        with self._delays.dawdling():
            while not (shown := _is_more(self._books.settlings(), before)) and time.monotonic() < began + LATE_WITHIN_S:
                time.sleep(LOOK_UP_S)
        took_s = time.monotonic() - began
        return f"for {took_s:.0f} s, until a deposit was confirmed and a withdrawal struck" if shown else ""

    def _cut_connections(self) -> str:
        database = self._chance.choice(self._databases)
        cut = database.cut_connections(self._chance.choice([0.5, 1.0]))
        return f"{cut} of the {database.name}'s" if cut else ""

    def _crash_database(self) -> str:
        database = self._chance.choice(self._databases)
        database.crash()
        time.sleep(away_s := self._chance.uniform(*DATABASE_AWAY_S))
        database.start()
        return f"the {database.name}'s, away for {away_s:.1f} s"


def _is_more(now: tuple[int, int], before: tuple[int, int]) -> bool:
    return all(map(operator.gt, now, before))
