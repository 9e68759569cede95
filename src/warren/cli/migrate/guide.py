"""Who is to be switched over, and when: what the operator is asked to do, one step at a time.

Consumers first (publishers stay at RabbitMQ, shovels carry what they send):

    stop consumers ─▶ shovels begin ─▶ start consumers at Warren ─▶ stop publishers ─▶ the rest comes, is counted
                   ─▶ start publishers at Warren

Everything goes through RabbitMQ's queue, the shovel and Warren's queue, so the order is kept, and every consumer that
counts at RabbitMQ is a shovel, so the count is exact.

Publishers first (what they send waits at Warren, consumers empty RabbitMQ):

    publishers go over ─▶ consumers empty RabbitMQ's queues and stop ─▶ the rest comes by shovel, is counted
                       ─▶ start consumers at Warren

The order is kept for queues that the consumers have emptied; what is left comes behind what was published to Warren.

Not here: carrying (`cli.migrate.carrying`).
"""

import os
import select
import sys
from collections.abc import Callable
from typing import final

from warren.cli.migrate.carrying import Carrying

CONSUMERS = "consumers"
PUBLISHERS = "publishers"
ORDERS = (CONSUMERS, PUBLISHERS)
READ_BYTES = 4096


@final
class Listener:
    """Waits for lines on standard input. Where that has ended nobody will say anything: only a signal ends the wait."""

    def __init__(self) -> None:
        self._lines = 0
        self._ended = False

    def was_told(self, within_s: float = 0.0) -> bool:
        """Whether there was a line; each counts once."""
        if not self._lines:
            self._read(within_s)
        if not self._lines:
            return False
        self._lines -= 1
        return True

    def _read(self, within_s: float) -> None:
        sources = [] if self._ended else [sys.stdin.fileno()]
        ready, _, _ = select.select(sources, [], [], within_s)
        if ready:
            given = os.read(ready[0], READ_BYTES)
            self._ended = not given
            self._lines += given.count(b"\n")


@final
class Guide:
    """Says each step, and waits until it is done."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._step = 0

    def ask(self, sentence: str) -> None:
        """Wait for the operator, doing nothing."""
        self._say(sentence)
        while not self._listener.was_told(1.0):
            pass

    def ask_while_carrying(self, sentence: str, carrying: Carrying) -> None:
        """Wait for the operator while shovels carry."""
        self._say(sentence)
        with carrying:
            while not self._listener.was_told():
                carrying.tick(ending=False)

    def _say(self, sentence: str) -> None:
        self._step += 1
        print(f"step {self._step}: {sentence}; then press Enter", flush=True)


def lead_consumers_first(guide: Guide, amqp: str, begin: Callable[[], Carrying]) -> Carrying:
    """Up to the moment when only the rest is to come."""
    guide.ask("stop the consumers at RabbitMQ; publishers go on there, and what they send waits for a moment")
    carrying = begin()
    guide.ask_while_carrying(
        f"start the consumers at Warren ({amqp}): shovels bring them everything, in order", carrying
    )
    guide.ask_while_carrying("stop the publishers at RabbitMQ, or let them wait", carrying)
    return carrying


def lead_publishers_first(guide: Guide, amqp: str, begin: Callable[[], Carrying]) -> Carrying:
    """Up to the moment when only the rest is to come."""
    guide.ask(f"stop the publishers at RabbitMQ and start them at Warren ({amqp}); consumers go on at RabbitMQ")
    guide.ask(
        "wait until the consumers have emptied RabbitMQ's queues, and stop them; "
        "what they leave comes to Warren behind what was published there since"
    )
    return begin()
