"""From the protocol header to connection.open-ok, as the client sees it.

    client                       broker
    AMQP 0 0 9 1          ->
                          <-     start (properties, mechanisms)
    start-ok (SASL)       ->
                          <-     tune (limits), or close: the login was refused
    tune-ok, open (vhost) ->
                          <-     open-ok, or close: the virtual host was refused

A broker that is not told of `authentication_failure_close` hangs up on a login it refuses, so it is told. A limit of 0
means none; of two limits the smaller counts. A client that names no heartbeat takes the broker's; one that names one
takes the smaller of both, and none if it names 0.

Not here: what a hang-up during the handshake means to the user (`warren.client.errors`).
"""

from typing import TYPE_CHECKING, Final

from warren.client.machine.events import MISUNDERSTOOD, Opened
from warren.client.machine.settings import AS_SUGGESTED, EXTERNAL, ClientSettings
from warren.client.machine.stages import AWAIT_OPEN_OK, AWAIT_START, AWAIT_TUNE, IS_OPEN, LOGIN
from warren.errors import COMMAND_INVALID, ConnectionFault
from warren.wire.frames import FRAME_MIN
from warren.wire.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.client.machine.connection import ConnectionMachine

CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)

FRAME_MAX_UNLIMITED: Final = 0x7FFFFFFF
CHANNEL_MAX_UNLIMITED: Final = 0xFFFF


def handle(connection: "ConnectionMachine", method: Method) -> None:
    """A method of channel 0 before the connection is open."""
    if connection.state == AWAIT_START and isinstance(method, ConnectionStart):
        _start(connection, method)
    elif connection.state == AWAIT_TUNE and isinstance(method, ConnectionTune):
        _tune(connection, method)
    elif connection.state == AWAIT_OPEN_OK and isinstance(method, ConnectionOpenOk):
        connection.enter(IS_OPEN)
        connection.events.append(
            Opened(connection.server_properties, connection.channel_max, connection.frame_max, connection.heartbeat_s)
        )
    else:
        raise ConnectionFault(COMMAND_INVALID, f"{method.name} during the handshake")


def _start(connection: "ConnectionMachine", method: ConnectionStart) -> None:
    settings = connection.settings
    connection.server_properties = method.server_properties
    theirs = method.server_properties.get("capabilities")
    connection.tells_refusals = isinstance(theirs, dict) and theirs.get("authentication_failure_close") is True
    offered = method.mechanisms.decode("utf-8", "replace").split()
    if settings.mechanism not in offered:
        connection.stage = LOGIN
        reason = f"the broker offers {', '.join(offered)} and not {settings.mechanism}"
        connection.end(MISUNDERSTOOD, COMMAND_INVALID, reason)
        return
    capabilities: Table = dict.fromkeys(CAPABILITIES, True)
    properties: Table = dict(settings.client_properties)
    properties["capabilities"] = capabilities
    connection.send(ConnectionStartOk(settings.mechanism, _response(settings), properties))
    connection.enter(AWAIT_TUNE)


def _response(settings: ClientSettings) -> bytes:
    if settings.mechanism == EXTERNAL:
        return b""
    return b"\0" + settings.user.encode("utf-8") + b"\0" + settings.password.encode("utf-8")


def _tune(connection: "ConnectionMachine", method: ConnectionTune) -> None:
    settings = connection.settings
    channel_max = _smaller(settings.channel_max, method.channel_max)
    frame_max = _smaller(settings.frame_max, method.frame_max)
    heartbeat_s = method.heartbeat
    if settings.heartbeat_s != AS_SUGGESTED:
        heartbeat_s = _smaller(settings.heartbeat_s, method.heartbeat) if settings.heartbeat_s else 0
    if 0 < frame_max < FRAME_MIN:
        raise ConnectionFault(COMMAND_INVALID, f"frames of {frame_max} bytes, which is less than {FRAME_MIN}")
    connection.send(ConnectionTuneOk(channel_max, frame_max, heartbeat_s))
    connection.send(ConnectionOpen(settings.vhost))
    connection.tuned(channel_max or CHANNEL_MAX_UNLIMITED, frame_max or FRAME_MAX_UNLIMITED, heartbeat_s)


def _smaller(ours: int, theirs: int) -> int:
    """Of two limits of which 0 is none."""
    if ours == 0 or theirs == 0:
        return max(ours, theirs)
    return min(ours, theirs)
