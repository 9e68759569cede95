"""A teller and a bank under random kills of processes, brokers and databases; in the end their books balance.

    make bank                                   ten minutes of faults
    python examples/bank/run.py --minutes 1 --keep DIR

Exits with 0 if both ledgers balance to the cent, nothing is lost and nothing is duplicated; otherwise with 1 and the
reason. Deletes its files at the end, unless --keep is given or the run failed; a failed run has dumps of the databases.

Not here: the services (`service`, `teller`, `core_bank`), the faults (`faults`), the checks (`books`).
"""

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import core_bank
import teller
from books import Books, BooksUnread, reconciled
from cluster import Cluster, ClusterFailed
from databases import Database, DatabaseFailed
from delays import Delays
from faults import Faults
from narrator import Narrator
from processes import Processes, ProcessFailed, ProcessSpec
from sqlalchemy import create_engine

from warren.errors import WarrenError

MINUTES = 10.0
RATE = 50.0
DRAIN_DEADLINE_S = 300.0
LOOK_UP_S = 0.5


class Unbalanced(Exception):
    """The books do not agree, or messages are still on their way at the deadline."""


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return _balanced(options)
    except (BooksUnread, ClusterFailed, DatabaseFailed, ProcessFailed, Unbalanced, WarrenError) as reason:
        print(f"bank: {reason}", file=sys.stderr)
        return 1


def _balanced(options: argparse.Namespace) -> int:
    narrator = Narrator()
    with _directory(options.keep) as directory:
        try:
            Run(narrator, directory, options.minutes * 60, options.rate, options.seed).run()
        except KeyboardInterrupt:
            print("bank: interrupted; everything is stopped", file=sys.stderr)
            return 1
        if options.keep:
            narrator.say(f"ledgers, logs and the reconciliation are in {directory}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A teller and a bank under random faults; their ledgers balance.")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"how long faults are injected (default {MINUTES:g})"
    )
    parser.add_argument("--rate", type=float, default=RATE, help=f"operations a second (default {RATE:g})")
    parser.add_argument("--seed", type=int, default=None, help="of the random faults (default: random)")
    parser.add_argument("--keep", metavar="DIR", help="a new directory for all files, which are then kept")
    return parser.parse_args()


@contextlib.contextmanager
def _directory(kept: str | None) -> Iterator[Path]:
    if kept is not None:
        path = Path(kept).resolve()
        path.mkdir(parents=True)
        yield path
        return
    path = Path(tempfile.mkdtemp(prefix="warren-bank-"))
    try:
        yield path
    except Exception:
        print(f"bank: logs, and dumps of the databases, are in {path}", file=sys.stderr)
        raise
    except BaseException:
        shutil.rmtree(path)
        raise
    shutil.rmtree(path)


class Run:
    """The steps of the run, in order."""

    def __init__(self, narrator: Narrator, directory: Path, duration_s: float, rate: float, seed: int | None) -> None:
        self._narrator = narrator
        self._directory = directory
        self._duration_s = duration_s
        self._rate = rate
        self._seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        self._told = directory / "accepted.txt"

    def run(self) -> None:
        say = self._narrator.say
        say("starting two databases and a cluster of three nodes")
        nodes = Cluster(self._directory / "cluster")
        with Database("teller") as tellers, Database("bank") as banks, nodes, self._dumped_if_it_fails(tellers, banks):
            nodes.up()
            nodes.await_mirrors()
            for database, module in ((tellers, teller), (banks, core_bank)):
                engine = create_engine(database.url)
                module.open_books(engine)
                engine.dispose()
            say("the queues are mirrored on all nodes, and the books are open")
            books, delays = Books(tellers, banks), Delays(banks)
            with Processes(self._directory / "logs", self._specs(nodes, tellers, banks)) as processes:
                faults = Faults(
                    self._narrator, nodes, [tellers, banks], books, delays, processes, random.Random(self._seed)
                )
                say(f"{self._rate:g} operations a second, and faults for {self._duration_s:g} s; seed {self._seed}")
                faults.go_on_for(self._duration_s)
                for name in processes.names("customers"):
                    processes.stop(name)
                say("no more faults, no more customers: waiting for the messages under way")
                self._await(
                    "everything has arrived", processes, lambda: nodes.is_empty() and not books.is_anything_open()
                )
            self._judge(books, faults, processes)

    @contextlib.contextmanager
    def _dumped_if_it_fails(self, *databases: Database) -> Iterator[None]:
        try:
            yield
        except Exception:
            for database in databases:
                # the exception has the reason; a failed dump has its error in the file
                database.dump(self._directory / f"{database.name}.sql")
            raise

    def _specs(self, nodes: Cluster, tellers: Database, banks: Database) -> list[ProcessSpec]:
        """Two processes of each service, so that one can take over from the other."""
        services = (
            ("teller-customers", "customers", tellers),
            ("teller-relay", "relay", tellers),
            ("teller-receipts", "receipts", tellers),
            ("bank-booking", "booking", banks),
            ("bank-relay", "relay", banks),
        )
        told = ("--rate", str(self._rate / 2), "--told", str(self._told))
        return [
            ProcessSpec(
                f"{name}-{place}",
                (role, "--database", database.url, "--broker", nodes.url(number + place), "--name", f"{name}-{place}")
                + (told if role == "customers" else ()),
            )
            for number, (name, role, database) in enumerate(services)
            for place in (1, 2)
        ]

    def _await(self, what: str, processes: Processes, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DRAIN_DEADLINE_S
        while not is_so():
            processes.check()
            if time.monotonic() > deadline:
                raise Unbalanced(f"not true after {DRAIN_DEADLINE_S:.0f} s: {what}")
            time.sleep(LOOK_UP_S)
        self._narrator.say(what)

    def _judge(self, books: Books, faults: Faults, processes: Processes) -> None:
        rows = [(kind, f"{count} times{faults.told_of(kind)}") for kind, count in sorted(faults.made.items())]
        rows += books.figures()
        rows.append(("bank: duplicates that the inbox knew", f"{processes.logged('message.duplicated'):,}"))
        rows.append(("processes that found no database", f"{processes.unavailable.total()}, and were started again"))
        self._narrator.table(rows)
        wrongs = books.wrongs(self._told)
        self._narrator.say("by SQL, the books agree" if not wrongs else "by SQL, the books do not agree")
        books.write_ledgers(self._directory)
        self._narrator.say("reconciling both services' ledgers, their outbox and their inbox")
        code, words = reconciled(self._directory)
        print(words, flush=True)
        if code:
            wrongs.append(f"the reconciliation ends with {code}")
        if wrongs:
            raise Unbalanced("; ".join(wrongs))
        self._narrator.say("both ledgers balance to the cent: nothing is lost, nothing is there twice")


if __name__ == "__main__":
    sys.exit(main())
