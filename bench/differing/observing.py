"""The outcome of one step on one side, in a form in which two brokers can be compared.

Not compared: server-generated names (they are numbered in the order they are seen), the time in an x-death, the
grouping of confirms, the order of a table. Field values keep their type letters.

Not here: receiving the outcome (`party`), choosing the steps (`generator`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.amqp_client import Received
from tests.support.amqp_values import NUMBER_FORMATS, Reader, read_properties

_MADE_UP = re.compile(r"amq\.(?:ctag-|gen-|rabbitmq\.reply-to\.)[A-Za-z0-9_=+/.-]+")
# Warren names the type of a refused number more coarsely, on purpose (tests/wire/__init__.py).
_NUMBER_TYPES = re.compile(r"\b(?:signedint|unsignedint|short|long|byte|unsignedbyte|unsignedshort|float|double)\b")
_CONTENTFUL = ("basic.deliver", "basic.return", "basic.get-ok")

Outcome = dict[str, list[str]]


class _TypedReader(Reader):
    """Keeps the type letter of every field value."""

    def table(self) -> Any:
        inside = _TypedReader(self.longstr())
        entries = []
        while inside.at < len(inside.payload):
            entries.append((inside.shortstr(), inside.field()))
        return sorted(entries, key=lambda entry: entry[0])

    def array(self) -> list[Any]:
        inside = _TypedReader(self.longstr())
        items = []
        while inside.at < len(inside.payload):
            items.append(inside.field())
        return items

    def field(self) -> Any:
        letter = chr(self.payload[self.at])
        if letter == "T":
            self.octets(9)
            return "T:some time"
        if letter in "FA":
            self.octets(1)
            return letter, self.table() if letter == "F" else self.array()
        value = super().field()
        return f"{letter}:{value!r}" if letter in NUMBER_FORMATS or letter != "S" else repr(value)


class Aliases:
    """Numbers for server-generated names, in the order they are first seen."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[str, str] = {}

    def plain(self, text: str) -> str:
        return _MADE_UP.sub(self._alias, text).replace(self._prefix, "")

    def _alias(self, match: re.Match[str]) -> str:
        name = match.group()
        kind = name.split("-")[0] if "reply-to" not in name else "reply-to"
        if name not in self._known:
            self._known[name] = f"<{kind} {len(self._known)}>"
        return self._known[name]


def content(received: Received) -> str:
    reader = _TypedReader(received.header)
    reader.octets(12)
    return f"{read_properties(reader)} {received.body!r}"


def outcome(
    places: Mapping[str, Sequence[Received]],
    confirms: Mapping[str, tuple[list[int], list[int]]],
    watched: Mapping[str, str],
    aliases: Aliases,
) -> Outcome:
    """Everything one side saw in a step, by where it was seen."""
    seen: Outcome = {}
    for place, events in sorted(places.items()):
        for received in events:
            _file(seen, place, received)
    for place, (acked, nacked) in confirms.items():
        seen[f"{place} confirms"] = [f"acked {sorted(acked)} nacked {sorted(nacked)}"]
    plain = {aliases.plain(where): [aliases.plain(item) for item in items] for where, items in seen.items()}
    for items in plain.values():
        _sort_cancels(items)
    plain["watched"] = sorted(aliases.plain(f"{name}: {state}") for name, state in watched.items())
    return plain


def _sort_cancels(replies: list[str]) -> None:
    """A deleted queue's consumers are cancelled in the order of their tags, and generated tags differ on both sides."""
    places = [place for place, reply in enumerate(replies) if reply.startswith("basic.cancel ")]
    for place, reply in zip(places, sorted(replies[place] for place in places), strict=True):
        replies[place] = reply


def _file(seen: Outcome, place: str, received: Received) -> None:
    fields = dict(received.fields)
    said = content(received) if received.name in _CONTENTFUL else ""
    if received.name == "basic.deliver":
        tag = fields.pop("consumer_tag")
        seen.setdefault(f"{place} order", []).append(f"{fields.pop('delivery_tag')} {tag}")
        seen.setdefault(f"{place} deliveries {tag}", []).append(f"{fields} {said}")
    elif received.name == "basic.return":
        seen.setdefault(f"{place} returns", []).append(f"{fields} {said}")
    else:
        if "reply_text" in fields:
            fields["reply_text"] = _NUMBER_TYPES.sub("number", fields["reply_text"])
        seen.setdefault(f"{place} replies", []).append(f"{received.name} {fields} {said}".rstrip())


def differences(one: Outcome, other: Outcome) -> list[str]:
    return [where for where in sorted(one.keys() | other.keys()) if one.get(where) != other.get(where)]


def only_interleaved(one: Outcome, other: Outcome) -> bool:
    """Each consumer got the same, in the same order, but consumers of one channel in a different order."""
    found = differences(one, other)
    return bool(found) and all(
        where.endswith(" order") and sorted(_tags(one.get(where, []))) == sorted(_tags(other.get(where, [])))
        for where in found
    )


def _tags(order: list[str]) -> list[str]:
    return [item.partition(" ")[2] for item in order]
