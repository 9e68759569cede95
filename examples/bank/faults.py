"""What goes wrong, by chance, in three lanes at once: processes, brokers, databases.

Within a lane one fault comes after another. Kinds are drawn like cards: when all of a lane have had their turn they are
shuffled again. One node of the cluster and one database are down at a time at most, and come back after a while.

Not here: who starts killed processes again (`staff`).
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from cluster import Cluster
from databases import Database
from narrator import Narrator
from operations import QUEUES
from staff import Staff

LOOK_UP_S = 0.5
NODE_AWAY_S = (0.5, 6.0)
DATABASE_AWAY_S = (0.5, 5.0)
SLEEP_S = 7.0
"""Longer than the lease of a relay or a chaser."""

Kinds = Mapping[str, Callable[[], str]]


class Faults:
    """Makes them; `made` counts them by kind."""

    def __init__(
        self, narrator: Narrator, nodes: Cluster, databases: list[Database], staff: Staff, chance: random.Random
    ) -> None:
        self.made: Counter[str] = Counter()
        self._narrator = narrator
        self._nodes = nodes
        self._databases = databases
        self._staff = staff
        self._chance = chance
        self._failures: list[Exception] = []
        self._over = threading.Event()

    def go_on_for(self, duration_s: float) -> None:
        """Until the time is over, a fault could not be made or a process failed, and what was begun is over, too."""
        lanes = [
            threading.Thread(target=self._lane, args=(kinds, pauses_s))
            for kinds, pauses_s in (
                (self._of_processes(), (1.0, 5.0)),
                (self._of_brokers(), (4.0, 12.0)),
                (self._of_databases(), (3.0, 9.0)),
            )
        ]
        for lane in lanes:
            lane.start()
        try:
            ends_at = time.monotonic() + duration_s
            while not self._over.wait(max(0.0, min(LOOK_UP_S, ends_at - time.monotonic()))):
                self._staff.check()
                if time.monotonic() >= ends_at:
                    break
        finally:
            # also if the run is interrupted: what is down comes back before it is stopped in good order
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
                self._narrator.say(f"{kind}: {kinds[kind]()}")
                self.made[kind] += 1
                self._over.wait(self._chance.uniform(*pauses_s))
        except Exception as trouble:
            self._failures.append(trouble)
            self._over.set()

    def _of_processes(self) -> Kinds:
        return {
            "relay killed": lambda: self._kill_one("relay"),
            "process paused beyond its lease": self._pause_one,
            "consumer killed": lambda: self._kill_one("booking"),
            "receipts' listener and chaser killed": lambda: self._kill_one("receipts"),
            "teller killed": lambda: self._kill_one("customers"),
        }

    def _of_brokers(self) -> Kinds:
        return {"broker master killed": self._kill_master, "queue purged by mistake": self._purge}

    def _of_databases(self) -> Kinds:
        return {"database connections cut": self._cut_connections, "database crashed": self._crash_database}

    def _kill_one(self, role: str) -> str:
        name = self._chance.choice(self._staff.names(role))
        self._staff.kill(name)
        return name

    def _pause_one(self) -> str:
        name = self._chance.choice(self._staff.names(""))
        self._staff.pause(name, SLEEP_S)
        return f"{name}, for {SLEEP_S:.0f} s"

    def _kill_master(self) -> str:
        queue = self._chance.choice(QUEUES)
        node = self._nodes.master_of(queue)
        self._nodes.kill(node)
        time.sleep(away_s := self._chance.uniform(*NODE_AWAY_S))
        self._nodes.start(node)
        return f"{node}, of {queue}, away for {away_s:.1f} s; the master is {self._nodes.master_of(queue)} now"

    def _purge(self) -> str:
        queue = self._chance.choice(QUEUES)
        return f"{queue}, of {self._nodes.purge(queue)} messages"

    def _cut_connections(self) -> str:
        database = self._chance.choice(self._databases)
        cut = database.cut_connections(self._chance.choice([0.5, 1.0]))
        return f"{cut} of the {database.name}'s"

    def _crash_database(self) -> str:
        database = self._chance.choice(self._databases)
        database.crash()
        time.sleep(away_s := self._chance.uniform(*DATABASE_AWAY_S))
        database.start()
        return f"the {database.name}'s, away for {away_s:.1f} s"
