"""One broker's side of a conversation: carries out a step, waits until the broker is at rest, reports the outcome.

At rest: every channel answered a round trip (channel.flow, which changes nothing), every queue and exchange of the
conversation was inspected over a separate connection, every method that needs an answer got it, and two such rounds in
a row met nothing else. RabbitMQ's processes work asynchronously, so a side that disagrees with the other is asked again
after a pause (`linger`) before it counts as a difference.

Not here: sockets and frames of one connection (`line`), the form of the outcome (`observing`).
"""

import itertools
import os
import time

from bench.differing.line import Line, Lines
from bench.differing.observing import Aliases, Outcome, outcome
from bench.differing.steps import Place, Step, filled_in
from tests.support.amqp_client import Received

ANSWER_DEADLINE_S = 5.0
QUIET_ROUNDS = 2
ROUNDS_MAX = 400
CONFIRM_PATIENCE_S = 0.6
_counter = itertools.count()


def fresh_prefix() -> str:
    """Twelve random characters."""
    return f"d{os.getpid() & 0xFFFFF:05x}{next(_counter) & 0xFFFFF:05x}-"


class Party:
    """A side; `prefix` begins all its names."""

    def __init__(self, address: tuple[str, int], prefix: str) -> None:
        self.prefix = prefix
        self.lines = Lines(address)
        self.aliases = Aliases(prefix)
        self.generated = "no-such-queue"
        self.reply_address = "amq.rabbitmq.reply-to.nobody"
        self._may_appear = False
        self.watching: dict[str, int] = {}
        self.watched: dict[str, str] = {}

    # Saying

    def say(self, step: Step) -> None:
        for line in self.lines.by_number.values():
            line.forget_seen()
        self._may_appear = step.method.endswith(".declare")
        if step.kind == "wait":
            return
        line = self.lines.ready(step.place)
        if step.kind == "cut":
            line.cut()
        elif step.kind == "leave":
            line.ask(0, "connection.close", reply_code=200, reply_text="done")
        elif step.kind == "publish":
            self._publish(line, step)
        elif step.kind == "settle":
            tag = line.pick(step.place[1], step.pick, step.pick_number)
            line.send(step.place[1], step.method, delivery_tag=tag, **step.fields)
            line.note_settled(step.place[1], tag, step.fields.get("multiple", False))
        else:
            self._ask(line, step)

    def _marks(self) -> dict[str, str]:
        return {"{n}": self.prefix, "{gen}": self.generated, "{reply}": self.reply_address}

    def _publish(self, line: Line, step: Step) -> None:
        for publish in step.publishes:
            line.publish(
                step.place[1],
                filled_in(publish.exchange, self._marks()),
                filled_in(publish.routing_key, self._marks()),
                publish.body.encode(),
                filled_in(publish.properties, self._marks()),
                publish.mandatory,
            )

    def _ask(self, line: Line, step: Step) -> None:
        fields = filled_in(step.fields, self._marks())
        for field in ("queue", "exchange"):
            name = fields.get(field, "")
            if step.method == f"{field}.declare" and name.startswith(self.prefix):
                self.watching.setdefault(f"{field} {name}", 10 + len(self.watching))
        line.ask(step.place[1], step.method, **fields)

    # Coming to rest

    def settle(self, rest_ms: int) -> None:
        if rest_ms:
            self.lines.pump_for(rest_ms / 1000)
        started = time.monotonic()
        quiet = 0
        for number in range(ROUNDS_MAX):
            quiet = quiet + 1 if self._round(number == 0 or self._may_appear) else 0
            late = time.monotonic() - started > CONFIRM_PATIENCE_S
            if quiet >= QUIET_ROUNDS and (late or not self.lines.owed()):
                return

    def linger(self, pause_s: float) -> None:
        self.lines.pump_for(pause_s)
        self.settle(0)

    def _round(self, everything: bool) -> bool:
        """True if nothing came but the answers to this round."""
        seen_before, watched_before = self.lines.seen_count(), dict(self.watched)
        self.lines.probe()
        self._look(everything)
        deadline = time.monotonic() + ANSWER_DEADLINE_S
        while self.lines.probes_open() and time.monotonic() < deadline:
            self.lines.pump(deadline)
        self._take_looks()
        self._note_names()
        return self.lines.seen_count() == seen_before and self.watched == watched_before

    def _look(self, everything: bool) -> None:
        """Inspect queues and exchanges. Asking for a missing or locked one closes a channel; it seldom reappears."""
        watcher = self.lines.watcher()
        for name, number in self.watching.items():
            if not everything and self.watched.get(name, "").startswith("4"):
                continue
            kind, _, bare = name.partition(" ")
            watcher.ensure_channel(number)
            watcher.probe(number, f"{kind}.declare", passive=True, **{kind: bare})

    def _take_looks(self) -> None:
        watcher = self.lines.watcher()
        for name, number in self.watching.items():
            for received in watcher.take_seen(number):
                fields = received.fields
                if received.name == "queue.declare-ok":
                    self.watched[name] = f"{fields['message_count']} ready, {fields['consumer_count']} consumers"
                elif received.name == "exchange.declare-ok":
                    self.watched[name] = "exists"
                elif received.name == "channel.close":
                    self.watched[name] = f"{fields['reply_code']} {fields['reply_text']}"

    def _note_names(self) -> None:
        for line in self.lines.by_number.values():
            for _, received in line.all_seen():
                if received.name == "queue.declare-ok" and received.fields["queue"].startswith("amq.gen-"):
                    self.generated = received.fields["queue"]
                    self.watching.setdefault(f"queue {self.generated}", 10 + len(self.watching))
                elif received.name in ("basic.deliver", "basic.get-ok"):
                    address = received.properties.get("reply_to", "")
                    self.reply_address = address if "reply-to." in address else self.reply_address

    # Reporting

    def outcome(self) -> Outcome:
        places: dict[str, list[Received]] = {}
        confirms: dict[str, tuple[list[int], list[int]]] = {}
        for number, line in self.lines.by_number.items():
            for channel, received in line.all_seen():
                places.setdefault(_where((number, channel)), []).append(received)
            for channel, folded in line.confirms_seen.items():
                confirms[_where((number, channel))] = folded
        seen = outcome(places, confirms, self.watched, self.aliases)
        seen["hung up"] = [str(number) for number, line in self.lines.by_number.items() if line.hung_up_now]
        return seen

    def end(self) -> None:
        """Delete everything that the conversation declared."""
        self.lines.close_all()
        watcher = self.lines.watcher()
        for name, number in self.watching.items():
            kind, _, bare = name.partition(" ")
            watcher.ensure_channel(number)
            watcher.probe(number, f"{kind}.delete", **{kind: bare})
        deadline = time.monotonic() + ANSWER_DEADLINE_S
        while self.lines.probes_open() and time.monotonic() < deadline:
            self.lines.pump(deadline)
        watcher.close()


def _where(place: Place) -> str:
    return f"{place[0]}.{place[1]}"
