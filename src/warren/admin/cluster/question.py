"""A question of one node to another: a request of the HTTP API, of which the other node answers its own part.

The visitor has proved who they are to the node that asks, and a node that asks has proved that it is a member, so it is
believed. What is wanted of a list is a `Part` of it, so that a page costs what is on the page:

- `index`: the key of each thing that lives there, and the value of one column;
- `rows`: the rows of some things, by their keys;
- `waiting`: of consumers, which of the asking nodes' are not active, which a queue's home knows.

`here` is no list's part: the answer is that of the request, for the node alone.

Keys are tuples of names, which say which thing is meant on whatever node.

Not here: asking (`cluster.peers`), answering (`cluster.answering`).
"""

import json
from dataclasses import dataclass
from typing import Any

import orjson

from warren.admin.http.answers import to_json
from warren.admin.http.visitor import Visitor

INDEX = "index"
ROWS = "rows"
HERE = "here"
WAITING = "waiting"

Key = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What a node wants of another."""

    kind: str
    column: str = ""
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Question:
    """A request as another node is to answer it."""

    method: str
    path: bytes
    query: bytes
    reason: str
    visitor: Visitor
    part: Part
    body: bytes = b""

    def encode(self) -> bytes:
        part, visitor = self.part, self.visitor
        return to_json(
            {
                "method": self.method,
                "path": self.path.decode("latin-1"),
                "query": self.query.decode("latin-1"),
                "reason": self.reason,
                "visitor": [visitor.name, visitor.tags, visitor.vhosts],
                "part": [part.kind, part.column, part.keys],
                "body": self.body.decode("latin-1"),
            }
        )


def decode_question(data: bytes) -> Question:
    """`ValueError`, `KeyError` or `TypeError` if it is none."""
    fields = document_of(data)
    name, tags, vhosts = fields["visitor"]
    kind, column, keys = fields["part"]
    return Question(
        str(fields["method"]),
        str(fields["path"]).encode("latin-1"),
        str(fields["query"]).encode("latin-1"),
        str(fields["reason"]),
        Visitor(str(name), list(tags), list(vhosts)),
        Part(str(kind), str(column), tuple(tuple(map(str, key)) for key in keys)),
        str(fields["body"]).encode("latin-1"),
    )


@dataclass(frozen=True)
class Told:
    """What a node answered: a status of HTTP, and the body."""

    status: int
    body: bytes

    def encode(self) -> bytes:
        return b"%03d%b" % (self.status, self.body)

    @property
    def document(self) -> Any:
        return document_of(self.body)


def decode_told(data: bytes) -> Told:
    return Told(int(data[:3]), data[3:])


def document_of(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # names that are not UTF-8 are lone surrogates
        return json.loads(data)
