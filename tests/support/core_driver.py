"""A node's core in memory, and clients that speak AMQP to it through its own codec.

`Core` is a shell in memory: it passes events in, carries out the effects in virtual time, and asserts what every shell
relies on: pauses and resumes alternate, and nothing is sent to a closed connection.

Not here: sockets (`amqp_client`), a whole simulated world (`warren.sim`).
"""

from collections.abc import Iterable

from warren.broker.access.passwords import is_password
from warren.broker.broker import Broker
from warren.broker.model.effects import (
    AskWebServer,
    CloseConnection,
    CompleteCommand,
    Effect,
    Note,
    PauseReading,
    ResumeReading,
    SendBytes,
    SetTimer,
    VerifyPassword,
)
from warren.broker.model.events import (
    BytesReceived,
    Command,
    CommandReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    PasswordVerified,
    WebServerAnswered,
)
from warren.broker.model.settings import BrokerSettings
from warren.errors import CommandRefused
from warren.wire.field_tables import Table
from warren.wire.frames import PROTOCOL_HEADER, content_frames
from warren.wire.method_stream import MethodStream, ReceivedMethod
from warren.wire.methods import (
    BasicConsume,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    encode_method,
)
from warren.wire.properties import Properties, encode_header_payload

START_MS = 1_700_000_000_000
FRAME_MAX = 131_072
CAPABLE: Table = {"connection.blocked": True, "consumer_cancel_notify": True, "authentication_failure_close": True}


class Core:
    """One broker, its clients, and the time it lives in."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.broker = Broker(settings or BrokerSettings(), seed=b"x")
        self.now_ms = START_MS
        # the time of the broker's next timer; 0 for none
        self.timer_at_ms = 0
        self.notes: list[Note] = []
        self.answers: dict[int, CompleteCommand] = {}
        # passwords that are not checked yet
        self.asked: list[VerifyPassword] = []
        # questions to a web server that are not answered yet
        self.questions: list[AskWebServer] = []
        self.closed: list[int] = []
        self.unread: set[int] = set()
        self._clients: dict[int, Client] = {}

    def turn(self, *events: Event) -> list[Effect]:
        """One call of `handle`, its effects carried out and returned."""
        if 0 < self.timer_at_ms <= self.now_ms:
            self.timer_at_ms = 0
        effects = self.broker.handle(list(events), self.now_ms)
        self.broker.check()
        for effect in effects:
            self._carry_out(effect)
        return effects

    def settle(self) -> list[Effect]:
        """Run turns until the broker asks for no further one at once."""
        effects: list[Effect] = []
        while 0 < self.timer_at_ms <= self.now_ms:
            effects += self.turn()
        return effects

    def pass_ms(self, milliseconds: int) -> list[Effect]:
        """Advance the time, with a turn at each timer of the broker."""
        until_ms = self.now_ms + milliseconds
        effects: list[Effect] = []
        while 0 < self.timer_at_ms <= until_ms:
            self.now_ms = max(self.timer_at_ms, self.now_ms)
            effects += self.turn()
        self.now_ms = until_ms
        return effects

    def connect(self, peer_host: str = "127.0.0.1") -> "Client":
        """A client with an accepted socket that has sent nothing yet."""
        client = Client(self, len(self._clients) + 1)
        self._clients[client.number] = client
        self.turn(ConnectionOpened(client.number, peer_host, 40_000 + client.number, "127.0.0.1", 5672))
        return client

    def client(
        self,
        heartbeat_s: int = 0,
        capabilities: Table = CAPABLE,
        channels: int = 1,
        user: str = "guest",
        vhost: str = "/",
    ) -> "Client":
        """A client after its handshake (the password is the user's name), with channels 1 and up open."""
        client = self.connect()
        client.shake_hands(heartbeat_s, capabilities, user, vhost)
        for number in range(1, channels + 1):
            client.say(ChannelOpen(), channel=number)
        client.heard()
        return client

    def link(self, user: str = "guest") -> "Client":
        """A link within the process: this user without a password, with channel 1."""
        link = Client(self, len(self._clients) + 1)
        self._clients[link.number] = link
        self.turn(ConnectionOpened(link.number, "", 0, "", 0, internal=True, trusted_user=user))
        link.read(PROTOCOL_HEADER)
        link.say(ConnectionStartOk(client_properties={}, mechanism="EXTERNAL", response=b""), channel=0)
        link.say(ConnectionTuneOk(channel_max=2047, frame_max=FRAME_MAX, heartbeat=0), channel=0)
        link.say(ConnectionOpen(virtual_host="/"), channel=0)
        link.say(ChannelOpen())
        link.heard()
        return link

    def command(self, command: Command) -> object:
        """The result of an operator's command; a `CommandRefused` if it is refused."""
        ticket = len(self.answers) + 1
        self.turn(CommandReceived(ticket, command))
        answer = self.answers[ticket]
        if answer.refusal:
            raise CommandRefused(answer.refusal, answer.reason)
        return answer.result

    def verify_passwords(self) -> None:
        """Compute the hashes that the broker asked for, and give it the results."""
        asked, self.asked = self.asked, []
        for order in asked:
            good = is_password(order.password, order.algorithm, order.password_hash)
            self.turn(PasswordVerified(order.ticket, good))

    def answer(self, answer: str = "allow", fault: str = "", at: int = 0) -> AskWebServer:
        """Answer a question to the web server, the oldest unless `at` says otherwise; returns the question."""
        question = self.questions.pop(at)
        self.turn(WebServerAnswered(question.ticket, question.about, answer, fault))
        self.settle()
        return question

    def held_bytes(self) -> int:
        return int(self.broker.turn.held_bytes)

    def note_names(self) -> list[str]:
        return [note.name for note in self.notes]

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, SendBytes):
            assert effect.connection_id not in self.closed
            self._clients[effect.connection_id].take(effect.data)
        elif isinstance(effect, SetTimer):
            self.timer_at_ms = effect.at_ms
        elif isinstance(effect, PauseReading):
            assert effect.connection_id not in self.unread
            self.unread.add(effect.connection_id)
        elif isinstance(effect, ResumeReading):
            self.unread.remove(effect.connection_id)
        elif isinstance(effect, CloseConnection):
            self.closed.append(effect.connection_id)
        elif isinstance(effect, VerifyPassword):
            self.asked.append(effect)
        elif isinstance(effect, AskWebServer):
            self.questions.append(effect)
        elif isinstance(effect, CompleteCommand):
            self.answers[effect.ticket] = effect
        elif isinstance(effect, Note):
            self.notes.append(effect)


class Client:
    """One connection: its methods reach the core in one read, the answers are kept until a test asks for them."""

    def __init__(self, core: Core, number: int) -> None:
        self.core = core
        self.number = number
        self.octets_received = 0
        self._stream = MethodStream()
        self._heard: list[ReceivedMethod] = []

    def take(self, data: bytes) -> None:
        self.octets_received += len(data)
        self._heard += self._stream.feed(data)

    def read(self, data: bytes) -> list[Effect]:
        """One socket read."""
        return self.core.turn(BytesReceived(self.number, data))

    def say(self, *methods: Method, channel: int = 1) -> list[Effect]:
        return self.read(spoken(*methods, channel=channel))

    def lose(self) -> list[Effect]:
        return self.core.turn(ConnectionDropped(self.number, "gone"))

    def shake_hands(
        self, heartbeat_s: int = 0, capabilities: Table = CAPABLE, user: str = "guest", vhost: str = "/"
    ) -> list[ReceivedMethod]:
        self.log_in(user, user, capabilities)
        self.say(ConnectionTuneOk(channel_max=2047, frame_max=FRAME_MAX, heartbeat=heartbeat_s), channel=0)
        self.say(ConnectionOpen(virtual_host=vhost), channel=0)
        return self.heard()

    def log_in(self, user: str, password: str, capabilities: Table = CAPABLE) -> list[Effect]:
        self.read(PROTOCOL_HEADER)
        properties: Table = {"capabilities": dict(capabilities)}
        response = f"\0{user}\0{password}".encode()
        return self.say(
            ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=response), channel=0
        )

    def declare(self, queue: str, arguments: Table | None = None, **flags: bool) -> None:
        self.say(QueueDeclare(queue=queue, arguments=arguments or {}, **flags))
        self.heard()

    def declare_exchange(self, exchange: str, kind: str = "direct", arguments: Table | None = None) -> None:
        self.say(ExchangeDeclare(exchange=exchange, type=kind, arguments=arguments or {}))
        self.heard()

    def bind(self, queue: str, exchange: str, key: str = "k") -> None:
        self.say(QueueBind(queue=queue, exchange=exchange, routing_key=key))
        self.heard()

    def consume(self, queue: str, tag: str = "c", no_ack: bool = False, channel: int = 1) -> list[Effect]:
        return self.say(BasicConsume(queue=queue, consumer_tag=tag, no_ack=no_ack), channel=channel)

    def confirm(self, channel: int = 1) -> None:
        self.say(ConfirmSelect(), channel=channel)
        self.heard()

    def publish(self, key: str, *bodies: bytes, exchange: str = "") -> list[Effect]:
        """All of them in one read."""
        return self.read(b"".join(published(key, body, exchange) for body in bodies))

    def heard(self) -> list[ReceivedMethod]:
        """Everything received since the last call."""
        heard, self._heard = self._heard, []
        return heard

    def methods(self) -> list[Method]:
        return [one.method for one in self.heard()]

    def names(self) -> list[str]:
        return [one.method.name for one in self.heard()]

    def close_reason(self) -> tuple[int, str]:
        """The code and text of channel.close, which must be the only method received."""
        (close,) = self.methods()
        assert isinstance(close, ChannelClose)
        return close.reply_code, close.reply_text

    def bodies(self) -> list[bytes]:
        """The bodies of the received messages; nothing else may have been received."""
        heard = self.heard()
        assert all(one.header for one in heard), [one.method for one in heard]
        return [one.body for one in heard]


def spoken(*methods: Method, channel: int = 1) -> bytes:
    return b"".join(encode_method(channel, method) for method in methods)


def published(
    key: str,
    body: bytes = b"",
    exchange: str = "",
    properties: Properties | None = None,
    mandatory: bool = False,
    channel: int = 1,
) -> bytes:
    """The frames of one publish."""
    method = BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return encode_method(channel, method) + content(body, properties, channel)


def content(body: bytes = b"", properties: Properties | None = None, channel: int = 1) -> bytes:
    header = encode_header_payload(properties or Properties(), len(body))
    return content_frames(header, body, channel, FRAME_MAX)


def sent_to(client: Client, effects: Iterable[Effect]) -> list[bytes]:
    """The bytes sent to this client, one item a write."""
    return [
        effect.data for effect in effects if isinstance(effect, SendBytes) and effect.connection_id == client.number
    ]


def without_notes(effects: Iterable[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, Note)]
