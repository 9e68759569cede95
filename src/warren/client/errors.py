"""Every error of the client, named by what happened.

::

    ClientError
    ├── UriError               the URL, or an option in it, is invalid
    ├── CannotConnect          no host of the URL answered as a broker; has the result of each attempt
    ├── LoginRefused           a broker answered, and refused the user, password or certificate
    ├── ConnectionClosed       the connection was closed: by the broker with its code and text, or by us
    │   └── ConnectionLost         without a close: the network or the broker is gone
    ├── ChannelClosed          one channel was closed, by the broker with its code and text, or by us; others go on
    ├── ConsumerCancelled      the broker cancelled a consumer: its queue was deleted, or moved to another node
    ├── CallTimeout            the broker did not answer in time
    ├── PublishFailed          publishes that the broker nacked, or returned as unroutable
    ├── BatchFailed            messages of a batch that were not confirmed, each with its error
    ├── SettingsError          a settings file, or a name in it, is invalid
    ├── CannotConvert          a value that cannot be encoded for sending, or a message that cannot be decoded
    └── TablesRefused          the tables in the database are from an incompatible version

Each error says whether the call may be repeated (`retriable`), and what became of the message (`outcome`): `not_sent`,
`unknown` (it may have arrived or not) or `rejected`. A mistake of the program is a `ValueError`.

Logs and parked messages describe an error by its type, its first line, and where it was raised. Further lines are left
out: databases put the values of a failed statement there (`[parameters: ...]`, `DETAIL: Key (name)=(...)`), and logs
must not have customers' data.

Not here: protocol errors in bytes from the broker, which end the connection with a `ConnectionClosed`
(`client.machine.connection`).
"""

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from warren.errors import WarrenError

if TYPE_CHECKING:
    from warren.client.machine.deliveries import ReturnedMessage
    from warren.client.machine.publishes import ConfirmRange


Outcome = Literal["not_sent", "unknown", "rejected"]


class ClientError(WarrenError):
    """The root of the client's errors."""

    retriable = False
    outcome: Outcome = "not_sent"


class UriError(ClientError):
    """The URL, or an option in it, is invalid."""


class CannotConnect(ClientError):
    """No host answered as a broker; `attempts` has each address of the last round and its result."""

    retriable = True

    def __init__(self, attempts: Sequence[tuple[str, str]]) -> None:
        super().__init__("cannot connect to " + "; ".join(f"{address}: {reason}" for address, reason in attempts))
        self.attempts = tuple(attempts)


class LoginRefused(ClientError):
    """The broker refused the login."""


class ConnectionClosed(ClientError):
    """The connection was closed; `code` and `text` are the broker's, or 0 and a reason if it gave none."""

    outcome: Outcome = "unknown"

    def __init__(self, sentence: str, code: int = 0, text: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.text = text
        self.retriable = code in RETRIABLE_CODES


class ConnectionLost(ConnectionClosed):
    """The connection was lost without a close."""

    def __init__(self, sentence: str, code: int = 0, text: str = "") -> None:
        super().__init__(sentence, code, text)
        self.retriable = True


class ChannelClosed(ClientError):
    """A channel was closed; `method` is the method that the broker blames, if any."""

    outcome: Outcome = "unknown"

    def __init__(self, sentence: str, code: int = 0, text: str = "", method: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.text = text
        self.method = method


class ConsumerCancelled(ClientError):
    """The broker cancelled a consumer."""

    retriable = True


class CallTimeout(ClientError):
    """The broker did not answer in time."""

    retriable = True
    outcome: Outcome = "unknown"


class PublishFailed(ClientError):
    """Some publishes failed: `refused` by a queue, or `returned` because no queue was bound."""

    outcome: Outcome = "rejected"

    def __init__(self, refused: "Sequence[ConfirmRange]", returned: "Sequence[ReturnedMessage]") -> None:
        refused_count = sum(each.last - each.first + 1 for each in refused)
        said = [f"{refused_count} were refused"] if refused_count else []
        if returned:
            first = returned[0]
            route = f"exchange {first.exchange!r} with key {first.routing_key!r}"
            said.append(f"{len(returned)} came back, the first from {route}: {first.text}")
        super().__init__("publishes failed: " + ", ".join(said))
        self.refused = tuple(refused)
        self.returned = tuple(returned)


class BatchFailed(ClientError):
    """Some messages of a batch failed; `failures` has the id and the error of each, all others are confirmed."""

    def __init__(self, failures: Sequence[tuple[str, ClientError]], batch_size: int) -> None:
        first_id, first = failures[0]
        super().__init__(f"{len(failures)} of {batch_size} messages failed, the first, {first_id}: {first}")
        self.failures = tuple(failures)
        self.retriable = all(error.retriable for _, error in failures)
        outcomes = {error.outcome for _, error in failures}
        # of several outcomes the least certain
        self.outcome: Outcome = next(each for each in CERTAINTY if each in outcomes)


class SettingsError(ClientError):
    """A settings file, or a name in it, is invalid; `file` and `key` say where."""

    def __init__(self, sentence: str, file: str = "", key: str = "") -> None:
        super().__init__(sentence)
        self.file = file
        self.key = key


class CannotConvert(ClientError):
    """A value cannot be encoded for sending, or a message cannot be decoded."""


class TablesRefused(ClientError):
    """The tables in the database are from an incompatible version; nothing was changed."""


CERTAINTY: tuple[Outcome, ...] = ("unknown", "rejected", "not_sent")

RETRIABLE_CODES = frozenset({320, 541})
"""The broker is shutting down, or has an internal error: another broker may succeed."""


SUMMARY_LENGTH_MAX = 500

_CAUSE = "\nThe above was the direct cause of this:\n\n"
_CONTEXT = "\nWhile that was handled, this happened:\n\n"


def error_summary(failure: BaseException) -> str:
    """The type and first line of an error."""
    return f"{type(failure).__name__}: {failure}".partition("\n")[0][:SUMMARY_LENGTH_MAX]


def error_trace(failure: BaseException) -> str:
    """The traceback and the causes of an error, as Python prints them, without lines that may have values."""
    lines: list[str] = []
    seen: set[int] = set()
    _append_trace(failure, lines, seen)
    return "".join(lines).rstrip("\n")


def _append_trace(failure: BaseException, lines: list[str], seen: set[int]) -> None:
    seen.add(id(failure))
    before = failure.__cause__ or (None if failure.__suppress_context__ else failure.__context__)
    if before is not None and id(before) not in seen:
        _append_trace(before, lines, seen)
        lines.append(_CAUSE if failure.__cause__ is before else _CONTEXT)
    lines.append("Traceback (most recent call last):\n")
    lines += traceback.format_tb(failure.__traceback__)
    lines.append(error_summary(failure) + "\n")
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            lines.append("\nOne of the group:\n\n")
            _append_trace(each, lines, seen)
