"""Every error of the client, named by what happened.

::

    ClientError
    ├── UriError               the URL, or an option in it, makes no sense
    ├── CannotConnect          no host of the URL answered as a broker does; says what each of them did
    ├── LoginRefused           a broker answered, and knows no such user, password or certificate
    ├── ConnectionClosed       the connection was closed in words: by the broker, with its code and text, or by us
    │   └── ConnectionLost         without a word: the network or the broker is gone
    ├── ChannelClosed          one channel was closed, by the broker with its code and text, or by us; others go on
    ├── ConsumerCancelled      the broker ended a consumer: its queue is gone, or has another home
    ├── CallTimeout            the broker did not answer in time
    ├── PublishFailed          publishes that the broker nacked, or sent back as unroutable
    ├── BatchFailed            messages of a batch that the broker does not have for certain, each with its error
    ├── SettingsError          a file of settings, or a name in it, makes no sense
    ├── CannotConvert          what is to be sent has no form in which it could be sent, or what came cannot be read
    └── TablesRefused          the tables of the database were made by a version that this one does not go with

Each says whether the same thing may be tried again (`retriable`), and of what was sent, what became of it (`outcome`):
`not_sent`, `unknown` (it may have arrived or not) or `rejected`. Mistakes of the program itself are a `ValueError`.

Not here: faults that the machine finds in what a broker sent; they end the connection, with a `ConnectionClosed`.

What is told of an error, to logs and to whoever looks at a parked message.

Databases tell the values of a statement that failed behind the first line of their errors (`[parameters: ...]`,
`DETAIL: Key (name)=(...)`), and a log is no place for the data of customers. So each error is told by its type and its
first line, and by where it was raised.

Not here: what becomes of a message that failed (`listening.retrying`), or of a job (`tables.leading`).
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
    """The URL, or an option in it, makes no sense."""


class CannotConnect(ClientError):
    """No host answered as a broker does; `attempts` has each address that was tried last, and what came of it."""

    retriable = True

    def __init__(self, attempts: Sequence[tuple[str, str]]) -> None:
        super().__init__("cannot connect to " + "; ".join(f"{address}: {reason}" for address, reason in attempts))
        self.attempts = tuple(attempts)


class LoginRefused(ClientError):
    """The broker does not let this user in."""


class ConnectionClosed(ClientError):
    """The connection was closed; `code` and `text` are what the broker said, 0 and a reason if it said nothing."""

    outcome: Outcome = "unknown"

    def __init__(self, sentence: str, code: int = 0, text: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.text = text
        self.retriable = code in RETRIABLE_CODES


class ConnectionLost(ConnectionClosed):
    """The connection is gone without a word."""

    def __init__(self, sentence: str, code: int = 0, text: str = "") -> None:
        super().__init__(sentence, code, text)
        self.retriable = True


class ChannelClosed(ClientError):
    """A channel was closed; `method` is the one the broker blames, if it blames one."""

    outcome: Outcome = "unknown"

    def __init__(self, sentence: str, code: int = 0, text: str = "", method: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.text = text
        self.method = method


class ConsumerCancelled(ClientError):
    """The broker ended a consumer."""

    retriable = True


class CallTimeout(ClientError):
    """The broker did not answer in time."""

    retriable = True
    outcome: Outcome = "unknown"


class PublishFailed(ClientError):
    """Some publishes did not get where they should: `refused` by a queue, or `returned` because no queue was there."""

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
        # of several the one that promises least
        self.outcome: Outcome = next(each for each in CERTAINTY if each in outcomes)


class SettingsError(ClientError):
    """A file of settings, or a name in it, makes no sense; `file` and `key` say where."""

    def __init__(self, sentence: str, file: str = "", key: str = "") -> None:
        super().__init__(sentence)
        self.file = file
        self.key = key


class CannotConvert(ClientError):
    """What is to be sent has no form in which it could be sent, or what came cannot be read."""


class TablesRefused(ClientError):
    """The tables of the database were made by a version that this one does not go with; nothing was changed."""


CERTAINTY: tuple[Outcome, ...] = ("unknown", "rejected", "not_sent")

RETRIABLE_CODES = frozenset({320, 541})
"""The broker was told to shut down, or met a bug of its own: another one may do better."""


SUMMARY_LENGTH_MAX = 500

_CAUSE = "\nThe above was the direct cause of this:\n\n"
_CONTEXT = "\nWhile that was handled, this happened:\n\n"


def error_summary(failure: BaseException) -> str:
    """Its type and its first line."""
    return f"{type(failure).__name__}: {failure}".partition("\n")[0][:SUMMARY_LENGTH_MAX]


def error_trace(failure: BaseException) -> str:
    """Where it was raised and what led to it, as Python prints it but for the lines that may have values."""
    told: list[str] = []
    seen: set[int] = set()
    _append_trace(failure, told, seen)
    return "".join(told).rstrip("\n")


def _append_trace(failure: BaseException, told: list[str], seen: set[int]) -> None:
    seen.add(id(failure))
    before = failure.__cause__ or (None if failure.__suppress_context__ else failure.__context__)
    if before is not None and id(before) not in seen:
        _append_trace(before, told, seen)
        told.append(_CAUSE if failure.__cause__ is before else _CONTEXT)
    told.append("Traceback (most recent call last):\n")
    told += traceback.format_tb(failure.__traceback__)
    told.append(error_summary(failure) + "\n")
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            told.append("\nOne of the group:\n\n")
            _append_trace(each, told, seen)
