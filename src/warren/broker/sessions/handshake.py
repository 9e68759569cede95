"""From the protocol header to connection.open-ok; and renewal of the login by connection.update-secret.

    client                       server
    AMQP 0 0 9 1          ->
                          <-     start (properties, mechanisms)
    start-ok (SASL)       ->
                          <-     tune (limits)
    tune-ok               ->
    open (vhost)          ->
                          <-     open-ok

A client that errs before tune-ok gets no answer: its socket is closed after three seconds, as in RabbitMQ, so that
guessing passwords is slow. A refused login is answered if the client has the capability
`authentication_failure_close`. Input after start-ok, and after update-secret, waits until the login is decided.

A login may expire. The connection is closed then, unless the client renewed the login before.

Not here: how a login is decided (`broker.access.logins`), the frames (`broker.sessions.input`).
"""

from typing import Final, final

from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.model.identity import Identity
from warren.broker.sessions.connection import AWAIT_OPEN, AWAIT_START_OK, RUNNING, Connection
from warren.broker.sessions.ports import VhostEntry
from warren.errors import ACCESS_REFUSED, CHANNEL_ERROR, NOT_ALLOWED, ConnectionFault, Distrusted
from warren.wire.field_tables import Table, decode_table
from warren.wire.frames import FRAME_MIN
from warren.wire.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)

# the headers of 0-9-1 and of 0-9, which RabbitMQ treats alike
HEADERS: Final = (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09")

COMPATIBLE_VERSION: Final = "3.10.8"
"""The RabbitMQ version whose behaviour this node has, for clients that check it."""

UPDATE_SECRET: Final = (10, 70)
"""Class and method of connection.update-secret, for a connection.close that blames it."""

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def start(connection: Connection) -> None:
    capabilities: Table = dict.fromkeys(CAPABILITIES, True)
    properties: Table = {
        "capabilities": capabilities,
        "cluster_name": connection.node.cluster_name(),
        "copyright": "Copyright the Warren authors.",
        "information": "Licensed under the Apache License 2.0.",
        "platform": "Python",
        "product": "Warren",
        "version": COMPATIBLE_VERSION,
    }
    mechanisms = " ".join(offered_mechanisms(connection)).encode()
    connection.send(ConnectionStart(server_properties=properties, mechanisms=mechanisms))


def offered_mechanisms(connection: Connection) -> list[str]:
    if connection.opened.trusted:
        return ["EXTERNAL"]
    offered = connection.node.settings.auth_mechanisms
    return [name for name in offered if name != "EXTERNAL" or connection.opened.tls]


def start_ok(connection: Connection, method: Method) -> None:
    if not isinstance(method, ConnectionStartOk):
        raise Distrusted(f"{method.name} instead of connection.start-ok")
    connection.client_properties = method.client_properties
    if method.mechanism not in offered_mechanisms(connection):
        raise Distrusted(f"unknown authentication mechanism '{method.mechanism}'")
    attempt = login_attempt_of(connection, method.mechanism, method.response)
    login = HandshakeLogin(connection, method.mechanism)
    connection.node.log_in(attempt, login)
    if not login.decided:
        connection.await_answer()


@final
class HandshakeLogin(LoginWaiter):
    """A login of a client, which may have disconnected when it is decided."""

    def __init__(self, connection: Connection, mechanism: str) -> None:
        self.decided: bool = False
        self._connection: Connection = connection
        self._mechanism: str = mechanism

    def still_waits(self) -> bool:
        return self._connection.state == AWAIT_START_OK

    def login_accepted(self, identity: Identity) -> None:
        self.decided = True
        if self.still_waits():
            self._connection.counters.count_login(refused=False)
            self._connection.mechanism = self._mechanism
            _welcome(self._connection, identity)
            _go_on(self._connection)

    def login_refused(self, reason: str) -> None:
        self.decided = True
        if self.still_waits():
            self._connection.counters.count_login(refused=True)
            _refuse_login(self._connection, self._mechanism, reason)
            _go_on(self._connection)


def _go_on(connection: Connection) -> None:
    """Handle the input that waited for the login."""
    if connection.held:
        connection.turn.inputs.append(connection)


def _welcome(connection: Connection, identity: Identity) -> None:
    connection.logged_in(identity)
    settings = connection.node.settings
    connection.send(
        ConnectionTune(channel_max=settings.channel_max, frame_max=settings.frame_max, heartbeat=settings.heartbeat_s)
    )
    connection.awaits_tune_ok()


def login_attempt_of(connection: Connection, mechanism: str, response: bytes) -> LoginAttempt:
    """The credentials of a client, decoded for its mechanism."""
    opened = connection.opened
    if opened.trusted:
        return LoginAttempt(opened.trusted_user, "", opened.peer_host, "", True, True, opened.identity)
    if mechanism == "EXTERNAL":
        return LoginAttempt(opened.certificate_name, "", opened.peer_host, opened.certificate_name, True)
    user, password = _plain(response) if mechanism == "PLAIN" else _amqplain(response)
    return LoginAttempt(user, password, opened.peer_host, opened.certificate_name, False)


def _plain(response: bytes) -> tuple[str, str]:
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise Distrusted("a PLAIN response that is not NUL user NUL password")
    return parts[1].decode("utf-8", "surrogateescape"), parts[2].decode("utf-8", "surrogateescape")


def _amqplain(response: bytes) -> tuple[str, str]:
    # a malformed table is a fault, and a fault before tune-ok closes the socket without an answer
    table = decode_table(response, 0, len(response))
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(login, str) or not isinstance(password, str):
        raise Distrusted("an AMQPLAIN response without LOGIN and PASSWORD")
    return login, password


def _refuse_login(connection: Connection, mechanism: str, refusal: str) -> None:
    if not connection.capable("authentication_failure_close"):
        connection.distrust(refusal)
        return
    connection.note("warning", "login.refused", {"mechanism": mechanism, "reason": refusal})
    text = (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )
    connection.send(ConnectionClose(reply_code=ACCESS_REFUSED, reply_text=text))
    connection.await_close_ok()


def tune_ok(connection: Connection, method: Method) -> None:
    if not isinstance(method, ConnectionTuneOk):
        raise Distrusted(f"{method.name} instead of connection.tune-ok")
    settings = connection.node.settings
    _check_limit("channel_max", method.channel_max, 1, settings.channel_max)
    _check_limit("frame_max", method.frame_max, FRAME_MIN, settings.frame_max)
    connection.tuned(channel_max=method.channel_max or 65535, frame_max=method.frame_max, heartbeat_s=method.heartbeat)


def _check_limit(name: str, value: int, lowest: int, highest: int) -> None:
    """0 as our maximum allows any value; 0 from the client asks for no limit."""
    if highest and (value == 0 or value > highest):
        raise Distrusted(f"negotiated {name} = {value} is higher than the maximum allowed value ({highest})")
    if value and value < lowest:
        raise Distrusted(f"negotiated {name} = {value} is lower than the minimum allowed value ({lowest})")


def open_vhost(connection: Connection, method: Method) -> None:
    if not isinstance(method, ConnectionOpen):
        raise ConnectionFault(CHANNEL_ERROR, "unexpected method in connection state opening")
    entry = connection.entry
    if entry is None:
        entry = OpenedVhost(connection)
    vhost = connection.node.enter(connection, method.virtual_host, entry)
    if vhost is None:
        connection.entry = entry
        connection.await_again()
        return
    connection.entry = None
    connection.entered(vhost)
    connection.send(ConnectionOpenOk())


@final
class OpenedVhost(VhostEntry):
    """A client that opens a virtual host, and may have disconnected when it may enter."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection: Connection = connection

    def still_waits(self) -> bool:
        return self._connection.state == AWAIT_OPEN

    def answered(self, allowed: bool) -> None:
        self.decided = True
        self.allowed = allowed
        if self.still_waits():
            _go_on(self._connection)


def update_secret(connection: Connection, method: ConnectionUpdateSecret) -> None:
    renewal = SecretRenewal(connection)
    connection.node.renew(connection, method.new_secret.decode("utf-8", "surrogateescape"), renewal)
    if not renewal.decided:
        connection.await_answer()


@final
class SecretRenewal(LoginWaiter):
    """A new secret of a client, which may have disconnected when it is decided."""

    def __init__(self, connection: Connection) -> None:
        self.decided: bool = False
        self._connection: Connection = connection

    def still_waits(self) -> bool:
        return self._connection.state == RUNNING

    def login_accepted(self, identity: Identity) -> None:
        self.decided = True
        connection = self._connection
        if self.still_waits():
            connection.logged_in(identity)
            connection.send(ConnectionUpdateSecretOk())
            _go_on(connection)

    def login_refused(self, reason: str) -> None:
        self.decided = True
        connection = self._connection
        if self.still_waits():
            connection.note("error", "secret.refused", {"user": connection.user, "reason": reason})
            fault = ConnectionFault(NOT_ALLOWED, "New secret was refused by one of the backends")
            connection.fault(fault, *UPDATE_SECRET)
