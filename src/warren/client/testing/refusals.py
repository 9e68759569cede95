"""How a broker says no: it closes the channel, with a code, its name and a reason.

Not here: when it does (`testing.broker`).
"""

from warren.client.errors import ChannelClosed
from warren.wire.values import Table

ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED, NOT_IMPLEMENTED = 403, 404, 405, 406, 540
_NAMES = {
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
}

Fact = tuple[str, object, object]
"""A name, what is wanted, what there is."""


def refusal(code: int, reason: str) -> ChannelClosed:
    text = f"{_NAMES[code]} - {reason}"
    return ChannelClosed(f"the broker closed the channel: {code} {text}", code, text)


def check_same(what: str, facts: list[Fact], wanted: Table, there: Table) -> None:
    """What is declared again has to be what there is."""
    arguments = [(name, wanted.get(name), there.get(name)) for name in sorted({*wanted, *there})]
    for name, received, current in facts + arguments:
        if received != current:
            told = f"received {_said(received)} but current is {_said(current)}"
            raise refusal(PRECONDITION_FAILED, f"inequivalent arg '{name}' for {what} in vhost '/': {told}")


def _said(value: object) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"
