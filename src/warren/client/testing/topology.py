"""Which queues a message goes to: exchanges, bindings, and what each type of exchange makes of them.

An exchange that finds nobody hands on to its alternate, if it has one; one that leads back to itself is passed once.

Not here: who may declare what (`testing.broker`), what a queue does with a message (`testing.queues`).

How a broker says no: it closes the channel, with a code, its name and a reason.

Not here: when it does (`testing.broker`).
"""

from collections.abc import Callable, Sequence
from functools import cache

from warren.client.errors import ChannelClosed
from warren.client.transport import BindingLayout, ExchangeLayout
from warren.wire.field_tables import Table

ALTERNATE = "alternate-exchange"
_PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}

Matcher = Callable[[BindingLayout, str, Table], bool]


class MemoryExchanges:
    """The exchanges of a broker, and what is bound to them."""

    def __init__(self) -> None:
        self.exchanges = {name: ExchangeLayout(name, kind) for name, kind in _PREDECLARED.items()}
        self._bindings: dict[str, list[BindingLayout]] = {}

    def bind(self, binding: BindingLayout) -> None:
        bound = self._bindings.setdefault(binding.source, [])
        if binding not in bound:
            bound.append(binding)

    def forget_queue(self, name: str) -> None:
        for source, bound in self._bindings.items():
            self._bindings[source] = [each for each in bound if each.to_exchange or each.destination != name]

    def queues_for(self, exchange: str, keys: Sequence[str], headers: Table) -> list[str]:
        """Their names, each once; the default exchange knows every queue by its name, also one that there is not."""
        if not exchange:
            return list(dict.fromkeys(keys))
        queues: dict[str, None] = {}
        passed: dict[str, None] = {}
        ahead = [exchange]
        while ahead:
            name = ahead.pop(0)
            if name not in passed and name in self.exchanges:
                passed[name] = None
                found = self._bound_to(name, keys, headers)
                queues |= dict.fromkeys(each.destination for each in found if not each.to_exchange)
                ahead += [each.destination for each in found if each.to_exchange]
                ahead += [] if found else self._alternate(name)
        return list(queues)

    def _bound_to(self, exchange: str, keys: Sequence[str], headers: Table) -> list[BindingLayout]:
        matches = MATCHERS[self.exchanges[exchange].kind]
        return [each for each in self._bindings.get(exchange, []) if any(matches(each, key, headers) for key in keys)]

    def _alternate(self, exchange: str) -> list[str]:
        alternate = self.exchanges[exchange].arguments.get(ALTERNATE)
        return [alternate] if isinstance(alternate, str) else []


def _direct(binding: BindingLayout, key: str, _: Table) -> bool:
    return binding.routing_key == key


def _fanout(_: BindingLayout, __: str, ___: Table) -> bool:
    return True


def _topic(binding: BindingLayout, key: str, _: Table) -> bool:
    return topic_matches(_words(binding.routing_key), _words(key))


def _headers(binding: BindingLayout, _: str, headers: Table) -> bool:
    kind = binding.arguments.get("x-match", "all")
    private = str(kind).endswith("-with-x")
    wanted = {
        name: value
        for name, value in binding.arguments.items()
        if name != "x-match" and (private or not name.startswith("x-"))
    }
    found = [name in headers and _same(value, headers[name]) for name, value in wanted.items()]
    return any(found) if str(kind).startswith("any") else all(found)


MATCHERS: dict[str, Matcher] = {"direct": _direct, "fanout": _fanout, "topic": _topic, "headers": _headers}


def _words(key: str) -> tuple[str, ...]:
    return tuple(key.split(".")) if key else ()


@cache
def topic_matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """`*` is one word, `#` any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return topic_matches(pattern[1:], words) or (bool(words) and topic_matches(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_matches(pattern[1:], words[1:])


def _same(wanted: object, found: object) -> bool:
    """A binding without a value asks only whether the header is there; True is not 1."""
    return wanted is None or (type(wanted) is type(found) and wanted == found)


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


def check_equivalent(what: str, facts: list[Fact], wanted: Table, there: Table) -> None:
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
