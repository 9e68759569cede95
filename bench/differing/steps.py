"""One step of a conversation, as data: the method, its channel, and its text for reports.

Texts in a step may hold marks that each side fills in for itself: `{n}` the prefix of every name of the conversation,
`{gen}` the last queue name that the server generated, `{reply}` the reply address last seen in a delivery.

Not here: choosing steps (`generator`), carrying them out (`party`).
"""

from dataclasses import dataclass, field
from typing import Any

Place = tuple[int, int]


@dataclass(frozen=True)
class Publish:
    exchange: str
    routing_key: str
    body: str
    properties: dict[str, Any] = field(default_factory=dict)
    mandatory: bool = False


@dataclass(frozen=True)
class Step:
    """`kind`: method, publish, settle, cut, leave (connection.close), wait."""

    kind: str
    place: Place
    method: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    publishes: tuple[Publish, ...] = ()
    pick: str = ""
    pick_number: int = 0
    rest_ms: int = 0

    def __str__(self) -> str:
        where = f"{self.place[0]}.{self.place[1]}"
        if self.kind == "publish":
            said = "; ".join(_publish(publish) for publish in self.publishes)
        elif self.kind == "settle":
            said = f"{self.method} {self.pick}[{self.pick_number}] {_fields(self.fields)}"
        else:
            said = f"{self.method} {_fields(self.fields)}".strip()
        rest = f" then rest {self.rest_ms} ms" if self.rest_ms else ""
        return f"{where} {self.kind} {said}{rest}".replace("{n}", "").replace("  ", " ")


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in fields.items() if value not in (False, {}))


def _publish(publish: Publish) -> str:
    mandatory = " mandatory" if publish.mandatory else ""
    properties = f" {publish.properties}" if publish.properties else ""
    return f"{publish.body} to {publish.exchange!r} key {publish.routing_key!r}{mandatory}{properties}"


def filled_in(value: Any, marks: dict[str, str]) -> Any:
    """The value with every mark replaced, inside tables and arrays too."""
    if isinstance(value, str):
        for mark, text in marks.items():
            value = value.replace(mark, text)
        return value
    if isinstance(value, dict):
        return {filled_in(name, marks): filled_in(inner, marks) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled_in(inner, marks) for inner in value]
    return value
