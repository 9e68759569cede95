"""One client connection and its channels.

The two classes hold each other, because every message passes through both. Neither handles methods: modules above this
one do.

States of a connection, in order: header -> start_ok -> tune_ok -> open_ok -> running -> closing (connection.close was
sent, close-ok is awaited) -> ignoring (input is discarded until the client or a timeout closes the socket) -> closed.

Output is gathered in one buffer and sent once a turn. Consumers may fill the buffer up to `OUTPUT_BUDGET_BYTES` a turn.
They write nothing while the socket's buffer is full or the output waits for the disk (`gate`). So a client that does
not read, and a slow disk, cost a bounded amount of memory.

A connection has one timer. Before connection.open-ok and after the close it is a timeout. In between it fires every
half heartbeat: it sends a heartbeat, and closes the connection of a client that was silent for two. If the login
expires, a second timer closes the connection then.

Invariants of a channel: once `closing` is set (channel.close was sent) only the client's close and close-ok have an
effect; its consumers are removed and its unacked deliveries are requeued. Once `closed` is set no confirm is sent,
though flushes that the channel waited for may still complete.

Not here: input and the table of methods (`broker.sessions.input`), the handshake (`broker.sessions.handshake`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.access.rights import Rights
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.effects import CloseConnection, PauseReading, ResumeReading, SendBytes
from warren.broker.model.events import ConnectionOpened
from warren.broker.model.identity import Identity
from warren.broker.model.ports import QueuePort
from warren.broker.model.remote_queue import QueueAnswer, RemoteQueuePort
from warren.broker.model.stats import ChannelStats, DeliveryStats
from warren.broker.model.turn import METHOD_WORK, FlushWaiter, Timer, TimerTarget, Turn
from warren.broker.queues.arguments import locked_fault
from warren.broker.sessions.confirms import Confirms, ConfirmSender
from warren.broker.sessions.counters import ChannelCounters, ConnectionCounters, PublishCounter
from warren.broker.sessions.incoming_publishes import UNROUTED, CachedPublish, IncomingContent
from warren.broker.sessions.output import ConnectionLog, OutputBuffer, OutputGate
from warren.broker.sessions.ports import NodePort, ReplyInboxPort, SessionPort, VhostEntry, VhostPort
from warren.broker.sessions.transactions import ChannelTransaction, PendingTxCommit
from warren.broker.sessions.unacked import AckingConsumer, UnackedDeliveries, UnackedDelivery, requeue_all, tag_of
from warren.errors import ACCESS_REFUSED, NOT_FOUND, ChannelFault, ConnectionFault
from warren.wire.field_tables import Table
from warren.wire.frames import FRAME_MIN, HEARTBEAT_FRAME, FrameReader
from warren.wire.methods import (
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
    write_method,
)
from warren.wire.property_scan import PropertyScan


@final
class ConnectionTimer(TimerTarget):
    """The timer of one connection."""

    def __init__(self, connection: "Connection", delay_ms: i64) -> None:
        self.heartbeat_ms: i64 = 0
        self.received_at_ms: i64 = connection.turn.now_ms
        self.sent_at_ms: i64 = connection.turn.now_ms
        self._connection: Connection = connection
        self._beating: bool = False
        self._timer: Timer = connection.turn.set_timer(connection.turn.now_ms + delay_ms, self)

    def wait(self, delay_ms: i64) -> None:
        """Close the connection after this delay."""
        self._beating = False
        self._arm(delay_ms)

    def beat(self) -> None:
        """Send heartbeats and expect them, if they were negotiated."""
        self._beating = True
        if self.heartbeat_ms:
            self._arm(self.heartbeat_ms // 2)
        else:
            self.end()

    def end(self) -> None:
        self._connection.turn.cancel_timer(self._timer)

    def timer_fired(self) -> None:
        connection = self._connection
        if not self._beating:
            connection.time_out()
            return
        assert self.heartbeat_ms > 0, "without heartbeats there is no timer"
        now_ms = connection.turn.now_ms
        silent_ms: i64 = now_ms - self.received_at_ms
        if silent_ms > 2 * self.heartbeat_ms and connection.reading:
            connection.note("warning", "connection.silent", {"silent_ms": int(silent_ms)})
            connection.hang_up()
            return
        if now_ms - self.sent_at_ms >= self.heartbeat_ms // 2:
            connection.send_heartbeat()
        self.beat()

    def _arm(self, delay_ms: i64) -> None:
        turn = self._connection.turn
        turn.cancel_timer(self._timer)
        self._timer = turn.set_timer(turn.now_ms + delay_ms, self)


@final
class LoginTimer(TimerTarget):
    """Closes a connection when its login expires."""

    def __init__(self, connection: "Connection", expires_at_ms: i64) -> None:
        self._connection: Connection = connection
        self._expires_at_ms: i64 = expires_at_ms
        self._timer: Timer = connection.turn.set_timer(expires_at_ms, self)

    def end(self) -> None:
        self._connection.turn.cancel_timer(self._timer)

    def timer_fired(self) -> None:
        self._connection.login_expired(self._expires_at_ms)


AWAIT_HEADER: Final[i64] = 0
AWAIT_START_OK: Final[i64] = 1
AWAIT_TUNE_OK: Final[i64] = 2
AWAIT_OPEN: Final[i64] = 3
RUNNING: Final[i64] = 4
CLOSING: Final[i64] = 5
IGNORING: Final[i64] = 6
CLOSED: Final[i64] = 7

OUTPUT_BUDGET_BYTES: Final[i64] = 1024 * 1024
REPLY_BACKLOG_BYTES: Final[i64] = 16 * 1024 * 1024
"""Unread output of a client that does not read, above which its input is not read either."""

FRAME_UNLIMITED: Final = 2**31 - 1
SILENT_CLOSE_MS: Final[i64] = 3_000
CLOSE_OK_WAIT_MS: Final[i64] = 30_000


@final
class Connection(SessionPort, FlushWaiter):
    """One client's connection."""

    def __init__(self, opened: ConnectionOpened, node: NodePort) -> None:
        super().__init__(opened)
        self.node: NodePort = node
        self.turn: Turn = node.turn
        self.state: i64 = AWAIT_HEADER
        # octets of an incomplete protocol header
        self.partial_header: bytes = b""
        self.reader: FrameReader = FrameReader(node.settings.authentication.initial_frame_max)
        # the SASL mechanism of its login
        self.mechanism: str = ""
        self.client_properties: Table = {}
        # the permissions of its user in its virtual host
        self.rights: Rights | None = None
        # whether it may enter the virtual host of connection.open, which waits for the answer
        self.entry: VhostEntry | None = None
        # how many permissions its current frame has waited for
        self.permissions_awaited: int = 0
        self.channels: dict[int, Channel] = {}
        # channels that the client closed in this turn: frames that it had already sent to them are ignored
        self.closed_numbers: set[int] = set()
        # decoded basic.publish frames by their bytes, and about how much memory they take
        self.cached_publishes: dict[bytes, CachedPublish] = {}
        self.cached_publishes_bytes: int = 0
        self.scan: PropertyScan = PropertyScan()
        self.channel_max: i64 = 0
        self.frame_max: i64 = FRAME_MIN
        self.message_bytes_max: i64 = node.settings.max_message_size
        self.counters: ConnectionCounters = ConnectionCounters(node.turn, opened.internal)
        self.connected_at_ms: i64 = node.turn.now_ms
        # the client published while an alarm is on: its socket is not read
        self.blocked: bool = False
        self.confirming: list[Channel] = []
        # input waits for room in the output, or for an answer: a read from disk, another node, a login
        self.held: bool = False
        self._awaits_answer: bool = False
        # input waits for the budget of the next turn; the socket was closed meanwhile
        self.waits_for_budget: bool = False
        self.leaving: bool = False
        self._leave_reason: str = ""
        self.reading: bool = True
        self.out: OutputBuffer = OutputBuffer(node.turn.buffers)
        self._flush_due: bool = False
        self._gate: OutputGate = OutputGate(node.turn)
        self._gate_shut: bool = False
        self._notes: ConnectionLog = ConnectionLog(opened, node.turn)
        # the socket is closed
        self._socket_closed: bool = False
        self._starved: bool = False
        self._woken_first: int = 0
        self._writes_paused: bool = False
        # bytes sent since the socket's buffer was full
        self.unread_bytes: i64 = 0
        self.timer: ConnectionTimer = ConnectionTimer(self, node.settings.handshake_timeout_ms)
        self._login_timer: LoginTimer | None = None

    # -- output

    def output(self) -> BytesWriter:
        """The buffer to write to; it is sent at the end of the turn."""
        if not self._flush_due:
            self._flush_due = True
            self.turn.outputs.append(self)
            self.out.begin()
        return self.out.writer

    def send(self, method: Method) -> None:
        write_method(self.output(), 0, method)

    def has_room(self) -> bool:
        """Whether one more delivery may be written now."""
        out = self.out
        full = out.pieces_bytes + len(out.writer) >= OUTPUT_BUDGET_BYTES
        if full or self._writes_paused or self._gate.closed or self.leaving:
            self._starved = True
            return False
        return True

    def takes_replies(self) -> bool:
        """Whether a direct reply may be written now. A reply has no queue to wait in."""
        unsent_bytes: i64 = self._gate.kept_bytes + self.out.pieces_bytes + len(self.out.writer)
        return self.unread_bytes + unsent_bytes < REPLY_BACKLOG_BYTES

    def must_wait(self) -> bool:
        """Whether input must wait: an alarm blocks the client, or too much output is unsent."""
        if self.held or self.blocked or self.unread_bytes >= REPLY_BACKLOG_BYTES:
            return True
        unsent_bytes: i64 = self._gate.kept_bytes + self.out.pieces_bytes + len(self.out.writer)
        return unsent_bytes >= OUTPUT_BUDGET_BYTES

    def hold_input(self) -> None:
        self.held = True
        self._update_reading()
        self.output()

    def await_budget(self) -> None:
        """Hold the input until the next turn, which has a new budget of work."""
        self.waits_for_budget = True
        self.hold_input()

    def await_entry(self, queue: QueuePort) -> None:
        """Handle the current frame again when its queue has read from disk; hold further input."""
        self.await_again()
        queue.await_entry(self)

    def continue_later(self) -> None:
        """Handle the current frame again in the next turn: the work for it takes several."""
        self.await_again()
        self.turn.inputs.append(self)

    def await_again(self) -> None:
        """Handle the current frame again when this connection is put on `Turn.inputs`; hold further input."""
        self.reader.step_back()
        self.await_answer()

    def await_answer(self) -> None:
        """Hold the input after the current frame until this connection is put on `Turn.inputs`."""
        self._awaits_answer = True
        self.hold_input()

    def release_input(self) -> None:
        self.held = False
        self._awaits_answer = False
        self.waits_for_budget = False
        self._update_reading()

    def gate(self) -> None:
        """Send nothing written in this turn or later before this turn's batch is on disk."""
        if not self._gate_shut:
            self._gate_shut = True
            self._gate.shut()
            self.turn.await_flush(self)
            self.output()

    def flushed(self) -> None:
        self._gate.open_oldest()
        self.output()

    def flush(self) -> None:
        if self._socket_closed:
            return
        self.send_confirms()
        self._notes.end_turn()
        self.closed_numbers.clear()
        self._flush_due = False
        self._gate_shut = False
        for piece in self.out.take():
            data = self._gate.passed(piece)
            if data:
                self._send_bytes(data)
        if self.state == CLOSED:
            if not self._gate.closed:
                self.turn.effects.append(CloseConnection(self.connection_id))
        elif not self._writes_paused:
            self._resume_waiting()

    def _send_bytes(self, data: bytes) -> None:
        self.turn.effects.append(SendBytes(self.connection_id, data))
        if self._writes_paused:
            self.unread_bytes += len(data)
        self.timer.sent_at_ms = self.turn.now_ms
        self.counters.count_sent(len(data))

    def send_confirms(self) -> None:
        """Write the confirms that are due on every channel."""
        if self.confirming:
            for channel in self.confirming:
                channel.turn_ended()
            self.confirming = []

    def writes_paused(self) -> None:
        self._writes_paused = True

    def writes_resumed(self) -> None:
        self._writes_paused = False
        self.unread_bytes = 0
        self._resume_waiting()

    def _resume_waiting(self) -> None:
        """There is room for output: consumers and input that waited for it go on in the next turn."""
        if self._starved and not self._gate.closed:
            self._wake_consumers()
        waits = not self.held or self.blocked or self._awaits_answer or self._gate.kept_bytes >= OUTPUT_BUDGET_BYTES
        if not waits and self not in self.turn.inputs:
            self.turn.inputs.append(self)

    def _update_reading(self) -> None:
        reading = not self.blocked and not self.held
        if reading != self.reading and not self._socket_closed:
            self.reading = reading
            # silence while the socket was not read is not the client's
            self.timer.received_at_ms = self.turn.now_ms
            self.turn.effects.append(ResumeReading(self.connection_id) if reading else PauseReading(self.connection_id))

    def _wake_consumers(self) -> None:
        self._starved = False
        channels = list(self.channels.values())
        # the first channel may take the whole budget, so another is first each time
        self._woken_first = (self._woken_first + 1) % max(len(channels), 1)
        for channel in channels[self._woken_first :] + channels[: self._woken_first]:
            channel.wake_consumers()

    # -- the handshake

    def awaits_start_ok(self) -> None:
        self.state = AWAIT_START_OK

    def awaits_tune_ok(self) -> None:
        self.state = AWAIT_TUNE_OK

    def tuned(self, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max or FRAME_UNLIMITED
        self.reader.payload_max = self.frame_max
        self.timer.heartbeat_ms = heartbeat_s * 1000
        self.state = AWAIT_OPEN

    def logged_in(self, identity: Identity) -> None:
        """The login was accepted, or renewed: the permissions of this identity count from here on."""
        self.identity = identity
        self.user = identity.name
        self._end_login_timer()
        if identity.expires_at_ms:
            self._login_timer = LoginTimer(self, identity.expires_at_ms)
        if self.vhost is not None:
            self._set_rights(identity, self.vhost)

    def _set_rights(self, identity: Identity, vhost: VhostPort) -> None:
        rights = self.node.rights(identity, vhost.name)
        rights.forwards = self.opened.direct
        self.rights = rights
        for channel in self.channels.values():
            channel.rights = rights
            if channel.content is not None:
                channel.content.cached.version = UNROUTED
        # cached routes were allowed by the rights before
        self.clear_cached_publishes()

    def login_expired(self, expires_at_ms: i64) -> None:
        """The client did not renew its login."""
        self._login_timer = None
        if self.state == RUNNING:
            expired_s, now_s = (int(expires_at_ms) + 500) // 1000, int(self.turn.now_ms) // 1000
            text = f"Provided JWT token has expired at timestamp {expired_s} (validated at {max(now_s, expired_s)})"
            self.fault(ConnectionFault(ACCESS_REFUSED, text), 0, 0)
        elif self.state < RUNNING:
            self.hang_up()

    def _end_login_timer(self) -> None:
        if self._login_timer is not None:
            self._login_timer.end()
            self._login_timer = None

    def entered(self, vhost: VhostPort) -> None:
        assert self.identity is not None, "the login was accepted"
        self.vhost = vhost
        self._set_rights(self.identity, vhost)
        self.counters.vhost_stats = vhost.stats
        self.state = RUNNING
        self.timer.beat()
        self.counters.count_connection_opened()
        self.note("info", "connection.opened", {"user": self.user, "vhost": vhost.name})

    def clear_cached_publishes(self) -> None:
        self.cached_publishes.clear()
        self.cached_publishes_bytes = 0

    def capable(self, name: str) -> bool:
        """Whether the client announced a capability."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    # -- queues

    def channel_count(self) -> int:
        return len(self.channels)

    def check_owner(self, queue: QueuePort) -> None:
        """Only the connection that declared an exclusive queue may use it."""
        if queue.owner_id and queue.owner_id != self.connection_id:
            raise locked_fault(queue)

    # -- alarms

    def block(self) -> None:
        """The client published while an alarm is on: stop reading its socket until the alarm is cleared."""
        self.blocked = True
        if self.capable("connection.blocked"):
            self.send(ConnectionBlocked(reason=self.node.alarm))
        self._update_reading()

    def unblock(self) -> None:
        self.blocked = False
        if self.state == RUNNING and self.capable("connection.blocked"):
            self.send(ConnectionUnblocked())
        self._update_reading()
        if self.held and not self._awaits_answer:
            # the input that was read before the alarm goes on
            self.output()

    # -- the end

    def fault(self, fault: ConnectionFault, class_id: int, method_id: int) -> None:
        """The client broke the protocol: log and close."""
        self.note("error", "connection.failed", {"code": fault.code, "text": fault.text})
        self.dismiss(fault, class_id, method_id)

    def dismiss(self, fault: ConnectionFault, class_id: int, method_id: int) -> None:
        """Send connection.close with this fault, then wait for close-ok."""
        self.send(
            ConnectionClose(
                reply_code=fault.code,
                reply_text=fault.reply_text(),
                blamed_class_id=class_id,
                blamed_method_id=method_id,
            )
        )
        self.end_channels()
        self.await_close_ok()

    def await_close_ok(self) -> None:
        self.state = CLOSING
        self._listen_again()
        self.timer.wait(CLOSE_OK_WAIT_MS)

    def distrust(self, reason: str) -> None:
        """Discard all input of this client, and close its socket after a delay without an answer."""
        self.note("warning", "connection.distrusted", {"reason": reason})
        self.ignore_input()

    def ignore_input(self) -> None:
        """Discard all input; the client closes the socket, or a timeout does."""
        self.end_channels()
        self.state = IGNORING
        self._listen_again()
        self.timer.wait(SILENT_CLOSE_MS)

    def _listen_again(self) -> None:
        """Read the socket again, so that close-ok and the end of the stream are seen."""
        self.blocked = False
        self.release_input()

    def hang_up(self) -> None:
        """Close the socket when the output is sent."""
        self.end_channels()
        self.state = CLOSED
        self.timer.end()
        self._end_login_timer()
        self.output()

    def leave(self, reason: str) -> None:
        """The socket is closed. End the connection in the next turn, after input that was read before and waits; until
        then deliver nothing."""
        self.leaving = True
        self._leave_reason = reason
        self._writes_paused = False
        self.unread_bytes = 0
        # a connection that is not held does not wait for its input; there may be thousands of these
        if not self.held or self not in self.turn.inputs:
            self.turn.inputs.append(self)

    def left(self) -> None:
        """The input of a connection that leaves is handled."""
        self.lost(self._leave_reason)

    def lost(self, reason: str) -> None:
        """The socket is closed."""
        if self.state == RUNNING:
            self.note("warning", "connection.lost", {"reason": reason})
        self.end_channels()
        self.state = CLOSED
        self.timer.end()
        self._end_login_timer()
        self.counters.count_connection_lost()
        self._socket_closed = True
        self._gate.drop()

    def end_channels(self) -> None:
        """Close all channels and delete the exclusive queues."""
        channels = list(self.channels.values())
        self.channels = {}
        self.turn.work += (1 + len(channels)) * METHOD_WORK
        self.counters.count_channels_closed(len(channels))
        # no channel may take a message that another one requeues
        for channel in channels:
            channel.stop_consumers()
        self.confirming = []
        for channel in channels:
            channel.close()
        if self.vhost is not None:
            self.node.connection_ended(self)
            self.vhost = None
            self.counters.vhost_stats = None

    def check(self) -> None:
        """Raise if the ledgers of this connection or its channels are inconsistent."""
        self._gate.check()
        self.out.check()
        assert self.state == RUNNING or not self.channels, "channels outlive their connection"
        for channel in self.channels.values():
            channel.check()

    # -- time

    def time_out(self) -> None:
        """The handshake or the close takes too long."""
        if self.state < RUNNING:
            self.note("warning", "handshake.timed_out", {})
        self.hang_up()

    def send_heartbeat(self) -> None:
        if self._gate.closed:
            # the held bytes are whole frames, and a heartbeat confirms nothing
            self._send_bytes(HEARTBEAT_FRAME)
        else:
            self.output().write(HEARTBEAT_FRAME)

    def note(self, level: str, name: str, fields: dict[str, object]) -> None:
        """Write a log line."""
        self._notes.add(level, name, fields)
        # the end of the turn logs how many lines were suppressed
        self.output()


TOLERATED_TAGS_MAX: Final = 65_536


@final
class Channel(FlushWaiter, ConfirmSender):
    """One channel of a connection."""

    def __init__(self, connection: Connection, number: i64, vhost: VhostPort) -> None:
        self.connection: Connection = connection
        self.node: NodePort = connection.node
        self.number: i64 = number
        self.vhost: VhostPort = vhost
        assert connection.rights is not None, "the connection is in a virtual host"
        self.rights: Rights = connection.rights
        self.closing: bool = False
        self.closed: bool = False
        self.unacked_deliveries: UnackedDeliveries = UnackedDeliveries()
        self.confirms: Confirms = Confirms()
        self.transaction: ChannelTransaction | None = None
        self.stats: ChannelStats = ChannelStats()
        self.counters: ChannelCounters = ChannelCounters(connection.turn, self.stats, vhost.stats)
        self.opened_at_ms: i64 = connection.turn.now_ms
        self.content: IncomingContent | None = None
        self.consumers: dict[str, AckingConsumer] = {}
        self.tolerated_tags: dict[int, None] = {}
        self.inbox: ReplyInboxPort | None = None
        # basic.qos: the limit of the channel, and the limit of consumers started from here on; 0 means no limit
        self.prefetch: i64 = 0
        self.consumer_prefetch: i64 = 0
        # a consumer was held back by `prefetch`: an ack for any queue may allow a delivery
        self.starved: bool = False
        self._woken_first: int = 0
        self.last_queue: str = ""
        # the metadata transaction that its last method waits for
        self.pending: TransactionWaiter | None = None
        # the question of its last method to another node, and the commit that waits for other nodes
        self.asked: QueueAnswer | None = None
        self.commit: PendingTxCommit | None = None
        self.confirms_scheduled: bool = False
        # a publish waits for this turn's batch
        self.awaits_batch: bool = False

    def send(self, method: Method) -> None:
        write_method(self.connection.output(), int(self.number), method)

    def schedule_confirms(self) -> None:
        """Send confirms at the end of the turn."""
        if not self.confirms_scheduled:
            self.confirms_scheduled = True
            self.connection.confirming.append(self)
            self.connection.output()

    def await_batch(self) -> None:
        """Send confirms when this turn's batch is on disk."""
        if not self.awaits_batch:
            self.awaits_batch = True
            self.confirms.begin_batch()
            self.node.turn.await_flush(self)
            # the end of the turn ends the batch
            self.schedule_confirms()

    def flushed(self) -> None:
        if not self.closed:
            self.confirms.flushed()
            self.schedule_confirms()

    def confirms_decided(self) -> None:
        if not self.closed:
            self.schedule_confirms()

    def turn_ended(self) -> None:
        self.confirms_scheduled = False
        self.awaits_batch = False
        self.send_confirms()

    def send_confirms(self) -> None:
        """Write the confirms that are due."""
        confirms = self.confirms
        if confirms.on and not self.closed:
            confirms.send(self.connection.output(), self.number)
            more: i64 = confirms.acked - self.stats.confirmed
            self.stats.confirmed = confirms.acked
            self.vhost.stats.confirmed += more
            self.node.turn.stats.confirmed += more

    def publish_counters(self) -> list[PublishCounter]:
        """The publish counters by exchange, with `confirmed` brought up to date."""
        if self.confirms.on:
            self.counters.count_confirmed(self.confirms.unconfirmed())
        return list(self.counters.published_to.values())

    def published_to(self) -> dict[str, int]:
        """The number of publishes by exchange."""
        return {exchange.name: int(counter.published) for exchange, counter in self.counters.published_to.items()}

    def taken_from(self) -> dict[str, DeliveryStats]:
        """The delivery stats by queue."""
        return {queue.name: counter.total for queue, counter in self.counters.taken_from.items()}

    def tolerate_tags(self, deliveries: list[UnackedDelivery]) -> None:
        """Late acks of these deliveries, which timed out and were requeued, are no fault."""
        for delivery in deliveries:
            self.tolerated_tags[delivery.tag] = None
        while len(self.tolerated_tags) > TOLERATED_TAGS_MAX:
            del self.tolerated_tags[next(iter(self.tolerated_tags))]

    def wake_consumers(self) -> None:
        """Consumers may be able to take messages again: wake their queues."""
        self.starved = False
        consumers = list(self.consumers.values())
        # the first consumer is served first, so another is first each time
        self._woken_first = (self._woken_first + 1) % max(len(consumers), 1)
        for consumer in consumers[self._woken_first :] + consumers[: self._woken_first]:
            consumer.queue.wake()

    def queue_name(self, given: str) -> str:
        """The queue name of a method: an empty name means the last queue declared on this channel."""
        if given:
            return given
        if not self.last_queue:
            raise ChannelFault(NOT_FOUND, "no previously declared queue")
        return self.last_queue

    def queue(self, given: str) -> QueuePort:
        """The queue of a method; a fault if it does not exist or is exclusive to another connection."""
        name = self.queue_name(given)
        queue = self.vhost.queue(name)
        if queue is None:
            raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{self.vhost.name}'")
        self.connection.check_owner(queue)
        return queue

    def fail(self, fault: ChannelFault, class_id: int, method_id: int) -> None:
        """Close this channel because of a fault of a method (0, 0 if no method caused it)."""
        facts: dict[str, object] = {"channel": int(self.number), "code": fault.code, "text": fault.text}
        self.connection.note("error", "channel.failed", facts)
        self.send_confirms()
        self.close()
        self.closing = True
        self.send(
            ChannelClose(
                reply_code=fault.code,
                reply_text=fault.reply_text(),
                blamed_class_id=class_id,
                blamed_method_id=method_id,
            )
        )

    def drop_question(self) -> None:
        """Abandon the question of the current frame to another node, if there is one."""
        answer = self.asked
        if answer is None:
            return
        self.asked = None
        waited = not answer.done
        answer.queue.abandon(answer)
        if waited:
            # input after the frame has nothing to wait for
            self.node.turn.inputs.append(self.connection)

    def close_inbox(self) -> None:
        if self.inbox is not None:
            del self.node.reply_inboxes[self.inbox.name]
            self.inbox = None

    def stop_consumers(self) -> None:
        """Consumers take no more messages, though their queues may still have them."""
        for consumer in self.consumers.values():
            if not consumer.stopped:
                consumer.stopped = True
                if isinstance(consumer.queue, RemoteQueuePort):
                    consumer.queue.stop(consumer)

    def close(self) -> None:
        """Remove the consumers and the inbox, requeue the deliveries, drop the transaction."""
        self.closed = True
        self.drop_question()
        if self.commit is not None:
            self.commit.abandon()
            self.commit = None
        if self.content is not None:
            self.content.release()
            self.content = None
        self.close_inbox()
        self.stop_consumers()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        deliveries = self.unacked_deliveries.take_out_to(0)
        if self.transaction is not None:
            self.transaction.drop_publishes()
            deliveries = sorted(deliveries + self.transaction.taken_out(), key=tag_of)
            self.transaction = None
        # deliveries first: an auto-delete queue may be deleted with its last consumer, and a requeue must not wake a
        # consumer that is being removed
        requeue_all(deliveries)
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)
        if self.counters.published_to:
            # cached publishes are keyed by the frame, which has the channel number; another channel may get that number
            self.connection.clear_cached_publishes()
        self.counters.drop()

    def check(self) -> None:
        """Raise if the ledgers of this channel are inconsistent."""
        ledger = self.unacked_deliveries
        ledger.check()
        self.confirms.check()
        if self.content is not None:
            self.content.check()
        assert not self.confirms.on or self.transaction is None, "a channel confirms, or is transactional"
        assert not self.closing or (ledger.count == 0 and not self.consumers), "a closing channel has deliveries"
        unsettled = [consumer for _entry, consumer in ledger.outstanding()]
        if self.transaction is not None:
            self.transaction.check()
            unsettled += [delivery.consumer for delivery in self.transaction.taken_out()]
        to_consumers = len([consumer for consumer in unsettled if consumer.subscribed])
        assert ledger.consumers_unacked == to_consumers, "the channel's unacked deliveries are miscounted"
        counts: dict[AckingConsumer, int] = dict.fromkeys(self.consumers.values(), 0)
        for consumer in unsettled:
            counts[consumer] = counts.get(consumer, 0) + 1
        for consumer, count in counts.items():
            assert consumer.unacked == count, f"consumer '{consumer.tag}' counts {consumer.unacked} of {count} unacked"
