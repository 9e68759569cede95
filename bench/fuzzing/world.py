"""A node in memory with a well-behaved publisher and consumer (the pair), many attackers, and the invariants to check.

After every turn: `handle` raised nothing; all replies are whole frames with known codes; all messages of the pair
arrived in order, in the turn they were published, and were confirmed; no attacker caused more than a few log lines. At
intervals: `Broker.check()`, and a pause long enough for every timer that closes the connection of a silent client. At
the end, with the attackers gone and their queues deleted, the node holds what it held at the start.

The seed and the number of the world decide everything.

Not here: the input of an attacker (`attackers`), making a failure small (`reduction`).
"""

import gc
import random

from bench.fuzzing.attackers import Attacker
from bench.fuzzing.conversations import corpus, handshake
from bench.fuzzing.mutations import framed
from bench.fuzzing.replies import Replies
from warren.broker.broker import Broker
from warren.broker.model.effects import CloseConnection, Effect, Note, PauseReading, SendBytes
from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    WritesPaused,
    WritesResumed,
)
from warren.broker.model.settings import BrokerSettings
from warren.broker.sessions.connection import Connection
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    ExchangeDelete,
    QueueDeclare,
    QueueDelete,
    encode_method,
)
from warren.wire.properties import Properties, encode_header_payload

PUBLISHER, CONSUMER, JANITOR = 1, 2, 3
PAIR_QUEUE = "the pair's own"
PAIR_MESSAGES = 2
CROWD = 24
CHECK_EVERY_TURNS = 8
PAUSE_EVERY_TURNS = 40
PAUSE_MS = 35_000
DELAY_MS_MAX = 2**32
NOTES_MAX = 3
DEAF_SHARE = 0.03

History = list[tuple[int, list[Event]]]


class Disturbed(Exception):
    """An invariant is broken."""


class World:
    """One node under attack. `history` has every turn so far, to reproduce a failure."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(f"{seed}/{number}")
        self.broker = Broker(BrokerSettings(), b"fuzz")
        self.history: History = []
        self.now_ms = 1_000_000
        self.mutated = 0
        self.connections = 0
        self.closes: dict[int, int] = {}
        self.blamed: Attacker | None = None
        self._corpus = corpus(self.rng)
        self._attackers: dict[int, Attacker] = {}
        self._pair = {PUBLISHER: Replies(), CONSUMER: Replies()}
        self._published = 0
        self._next_id = 100
        self._header = encode_header_payload(Properties(), 8)
        self._open_pair()

    def run(self, turns: int, pause_ms: int = PAUSE_MS) -> None:
        for turn in range(1, turns + 1):
            self._turn()
            if turn % CHECK_EVERY_TURNS == 0:
                self.broker.check()
            if turn % PAUSE_EVERY_TURNS == 0:
                self._pause(pause_ms)
        self._end()

    # -- the pair

    def _open_pair(self) -> None:
        opening = b"".join([*handshake(0), encode_method(1, ChannelOpen())])
        declare = encode_method(1, QueueDeclare(PAIR_QUEUE, exclusive=True)) + encode_method(
            1, BasicConsume(PAIR_QUEUE)
        )
        events = [_accepted(CONSUMER), BytesReceived(CONSUMER, opening + declare), _accepted(PUBLISHER)]
        events.append(BytesReceived(PUBLISHER, opening + encode_method(1, ConfirmSelect())))
        self._handle(events)

    def _pair_events(self) -> list[Event]:
        """The consumer acks what it has, the publisher sends the next ones."""
        events: list[Event] = []
        if self._published:
            events.append(BytesReceived(CONSUMER, encode_method(1, BasicAck(self._published, True))))
        stream = b""
        for _ in range(PAIR_MESSAGES):
            self._published += 1
            method = encode_method(1, BasicPublish("", PAIR_QUEUE))
            stream += method + framed(2, 1, self._header) + framed(3, 1, self._published.to_bytes(8, "big"))
        events.append(BytesReceived(PUBLISHER, stream))
        return events

    def _check_pair(self) -> None:
        bodies = self._pair[CONSUMER].bodies
        first = self._published - PAIR_MESSAGES + 1
        if bodies != [number.to_bytes(8, "big") for number in range(first, self._published + 1)]:
            raise Disturbed(f"the pair's consumer got {bodies!r}, {first} and up were published")
        bodies.clear()
        if self._pair[PUBLISHER].confirmed != self._published:
            raise Disturbed(f"publish {self._published} of the pair was not confirmed")
        if self._pair[CONSUMER].close_code or self._pair[PUBLISHER].close_code:
            raise Disturbed("the pair was told to close")

    # -- the crowd

    def _turn(self) -> None:
        events = self._pair_events()
        at = len(events) - 1
        for attacker in list(self._attackers.values()):
            self._let_act(attacker, events)
        while len(self._attackers) < CROWD:
            self._next_id += 1
            self.connections += 1
            attacker = Attacker(self._next_id, self.rng, self._corpus)
            self._attackers[self._next_id] = attacker
            events.append(_accepted(self._next_id))
            self._let_act(attacker, events)
        # the publisher sends in the middle of the attackers, not before them
        events.insert(self.rng.randrange(at, len(events)), events.pop(at))
        self.now_ms += self.rng.randrange(400)
        self._handle(events)
        self._check_pair()

    def _let_act(self, attacker: Attacker, events: list[Event]) -> None:
        if attacker.hung_up or attacker.frames_left <= 0:
            self._lose(attacker, events)
        elif attacker.replies.close_code or not (attacker.replies.opened or not attacker.sent):
            # refused, or stuck in its handshake: it leaves, or waits for its timeout
            if self.rng.random() < 0.5:
                self._lose(attacker, events)
        else:
            reads, mutated = attacker.reads()
            self.mutated += mutated
            events.extend([BytesReceived(attacker.connection_id, read) for read in reads])
            if self.rng.random() < DEAF_SHARE:
                # it stops reading for a while, or for good
                attacker.deaf = not attacker.deaf
                change = WritesPaused if attacker.deaf else WritesResumed
                events.append(change(attacker.connection_id))

    def _lose(self, attacker: Attacker, events: list[Event]) -> None:
        del self._attackers[attacker.connection_id]
        events.append(ConnectionDropped(attacker.connection_id, "reset"))
        code = attacker.replies.close_code
        self.closes[code] = self.closes.get(code, 0) + 1

    def _pause(self, pause_ms: int) -> None:
        """All clients are silent: refused connections and unfinished handshakes time out."""
        waiting = [a for a in self._attackers.values() if a.replies.close_code or not a.replies.opened]
        self.now_ms += pause_ms
        self._handle([])
        for attacker in waiting:
            if not attacker.hung_up:
                self.blamed = attacker
                raise Disturbed(f"connection {attacker.connection_id} was not cut off after {pause_ms} ms")

    # -- one turn of the node

    def _handle(self, events: list[Event]) -> None:
        self.history.append((self.now_ms, events))
        for effect in self.broker.handle(events, self.now_ms):
            self._take(effect)

    def _take(self, effect: Effect) -> None:
        if isinstance(effect, SendBytes):
            pair = self._pair.get(effect.connection_id)
            if pair is not None:
                pair.read(effect.data)
            elif effect.connection_id in self._attackers:
                self.blamed = self._attackers[effect.connection_id]
                self.blamed.replies.read(effect.data)
                self.blamed = None
        elif isinstance(effect, (CloseConnection, PauseReading)):
            if effect.connection_id in self._pair:
                raise Disturbed(f"{effect!r} hits the pair")
            attacker = self._attackers.get(effect.connection_id)
            if attacker is not None and isinstance(effect, CloseConnection):
                attacker.hung_up = True
        elif isinstance(effect, Note):
            self._count_note(effect)

    def _count_note(self, note: Note) -> None:
        attacker = self._attackers.get(int(str(note.fields.get("connection", 0))))
        if attacker is None:
            return
        # a channel that fails has a line of its own, as its client has a reply
        attacker.notes += note.name != "channel.failed"
        if attacker.notes > NOTES_MAX:
            self.blamed = attacker
            raise Disturbed(f"connection {attacker.connection_id} wrote {attacker.notes} log lines, now {note!r}")

    # -- the end

    def _end(self) -> None:
        events: list[Event] = []
        for attacker in list(self._attackers.values()):
            self._lose(attacker, events)
        events.append(BytesReceived(CONSUMER, encode_method(1, BasicAck(self._published, True))))
        self._handle(events)
        self._sweep()
        self.now_ms += DELAY_MS_MAX
        self._handle([])
        self.broker.check()
        self._check_baseline()

    def _sweep(self) -> None:
        """Delete over AMQP the queues and exchanges of the attackers."""
        topology = self.broker.vhosts["/"].topology
        methods = [QueueDelete(name) for name in topology.queues if name != PAIR_QUEUE]
        names = [name for name in topology.exchanges if name and not name.startswith("amq.")]
        stream = b"".join([encode_method(1, method) for method in methods])
        stream += b"".join([encode_method(1, ExchangeDelete(name)) for name in names])
        opening = b"".join([*handshake(0), encode_method(1, ChannelOpen())])
        self._handle([_accepted(JANITOR), BytesReceived(JANITOR, opening + stream), ConnectionDropped(JANITOR)])

    def _check_baseline(self) -> None:
        turn, vhost = self.broker.turn, self.broker.vhosts["/"]
        facts = {
            "held bytes": int(turn.held_bytes),
            "connections": sorted(self.broker.connections) != [PUBLISHER, CONSUMER],
            "queues": list(vhost.topology.queues) != [PAIR_QUEUE],
            "inboxes": len(self.broker.reply_inboxes),
            "drains": len(turn.drains),
        }
        wrong = [name for name, value in facts.items() if value]
        if wrong:
            raise Disturbed(f"not as at the start: {wrong}: {facts}")
        gc.collect()
        alive = sum(type(found) is Connection and found.node is self.broker for found in gc.get_objects())
        if alive > 2:
            raise Disturbed(f"{alive} connections are kept alive, 2 are open")


def _accepted(connection_id: int) -> ConnectionOpened:
    return ConnectionOpened(connection_id, "127.0.0.1", connection_id, "127.0.0.1", 5672)
