"""Every error Warren raises, named by who must act on it.

::

    WarrenError
    ├── ConfigError        the operator: a bad option, file or port; the node does not start
    ├── StoreError         the operator: files of the data directory are damaged or missing
    ├── ProtocolFault      the AMQP peer: a reply code and RabbitMQ's text for it
    │   ├── ChannelFault       closes one channel
    │   └── ConnectionFault    closes the connection
    ├── Distrusted         the AMQP peer, without a reply: it broke the protocol before it authenticated
    ├── CommandRefused     the operator: a command that cannot be carried out, and changed nothing
    ├── PeerFault          another node: it sent invalid data; the link to it is dropped
    └── InvariantBroken    Warren's authors: a state machine is in a state that its invariants exclude

Protocol faults are raised anywhere below the session and caught in one place, `broker.sessions.input`, which closes
the channel or the connection. Expected trouble (a lost link, a full buffer) is an event, not an exception.

Not here: which method caused a fault (`broker.sessions.input` knows).
"""

from typing import Final

CONTENT_TOO_LARGE: Final = 311
NO_ROUTE: Final = 312
NO_CONSUMERS: Final = 313
CONNECTION_FORCED: Final = 320
INVALID_PATH: Final = 402
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406
FRAME_ERROR: Final = 501
SYNTAX_ERROR: Final = 502
COMMAND_INVALID: Final = 503
CHANNEL_ERROR: Final = 504
UNEXPECTED_FRAME: Final = 505
RESOURCE_ERROR: Final = 506
NOT_ALLOWED: Final = 530
NOT_IMPLEMENTED: Final = 540
INTERNAL_ERROR: Final = 541

REPLY_NAMES: Final[dict[int, str]] = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}


class WarrenError(Exception):
    """The root of the tree."""


class ConfigError(WarrenError):
    """The operator gave an option, file or port that cannot be used."""


class StoreError(WarrenError):
    """Files of the data directory are damaged or missing, or contradict one another."""


class ProtocolFault(WarrenError):
    """The AMQP peer broke the protocol, or asked for something impossible; `code` and `text` go into the reply."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{REPLY_NAMES[code]} - {text}")
        self.code = code
        self.text = text

    def reply_text(self) -> str:
        """The text on the wire: the name of the code, a dash, the text, cut to fit a short string."""
        whole = f"{REPLY_NAMES[self.code]} - {self.text}"
        encoded = whole.encode("utf-8", "surrogateescape")
        if len(encoded) <= 255:
            return whole
        return encoded[:252].decode("utf-8", "ignore") + "..."


class ChannelFault(ProtocolFault):
    """Closes the channel; the connection stays open."""


class ConnectionFault(ProtocolFault):
    """Closes the connection. With `blames_method` the reply names the class and method that caused the fault."""

    def __init__(self, code: int, text: str, blames_method: bool = True) -> None:
        super().__init__(code, text)
        self.blames_method = blames_method


class Distrusted(WarrenError):
    """The peer broke the protocol before it authenticated: it gets no reply, and its socket is closed after a delay."""


class CommandRefused(WarrenError):
    """An operator's command cannot be carried out; nothing was changed.

    `kind` is a word of RabbitMQ's HTTP API: bad_request, not_found, not_authorised; or unavailable, if the metadata
    transaction was not decided in time, in which case it may still be committed. In a batch of commands, `at` is the
    index of the refused one.
    """

    def __init__(self, kind: str, reason: str, at: int = 0) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.at = at


class PeerFault(WarrenError):
    """Another node sent invalid data: the link to it is dropped."""


class InvariantBroken(WarrenError):
    """A state machine is in a state that its invariants exclude; the node stops."""
