"""Values of the HTTP API written as rabbitmqctl writes them: Erlang terms in a table, tagged lists in JSON.

===============  ==========================  =================================  ==========================
value            in a table                  in JSON                            as an Erlang term
===============  ==========================  =================================  ==========================
None             nothing                     ``""``                             ``''``
``"text"``       ``text``                    ``"text"``                         ``<<"text">>``
``Atom("up")``   ``up``                      ``"up"``                           ``up``
``["a", "b"]``   ``[a, b]``                  ``["a","b"]``                      ``[a,b]``
``{"n": "up"}``  ``[{n, up}]``               ``{"n":"up"}``                     ``[{n,up}]``
``Table(x=1)``   ``[{"x",1}]``               ``[["x","long",1]]``               ``[{<<"x">>,long,1}]``
===============  ==========================  =================================  ==========================

JSON does not carry the types of AMQP arguments; an integer is shown as a `long`, the type HTTP clients declare with.

Not here: rows and whole outputs (`cli.ctl.output`).
"""

import json
from typing import Any


class Atom(str):
    """A word that Erlang writes without quotes: a state, a type, a process."""

    __slots__ = ()


class TermTable(dict[str, Any]):
    """AMQP arguments."""


def pid(node: object, name: object) -> Atom | None:
    """Stands for a process: its node and the object it serves, without spaces or arrows, equal in every list."""
    return Atom(f"<{node}.{''.join(str(name).split()).replace('->', '-')}>") if name else None


def shown(value: object) -> str:
    """A value as a table cell."""
    if value is None:
        return ""
    if isinstance(value, TermTable):
        return _arguments(value)
    if isinstance(value, dict):
        return "[" + ", ".join(f"{{{key}, {shown(item)}}}" for key, item in value.items()) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, tuple):
        return "{" + ",".join(shown(item) for item in value) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def tagged(value: object) -> object:
    """A value as JSON."""
    if value is None:
        return ""
    if isinstance(value, TermTable):
        return [[name, *_typed(item)] for name, item in value.items()]
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    return value


def erlang(value: object) -> str:
    """A value as an Erlang term."""
    if value is None:
        return "''"
    if isinstance(value, TermTable):
        return "[" + ",".join(_erlang_argument([f"<<{_quoted(name)}>>"], item) for name, item in value.items()) + "]"
    if isinstance(value, dict):
        return "[" + ",".join(f"{{{_erlang_atom(key)},{erlang(item)}}}" for key, item in value.items()) + "]"
    if isinstance(value, list):
        return "[" + ",".join(_erlang_atom(item) if isinstance(item, str) else erlang(item) for item in value) + "]"
    if isinstance(value, tuple):
        return "{" + ",".join(erlang(item) for item in value) + "}"
    if isinstance(value, Atom):
        return _erlang_atom(value)
    if isinstance(value, str):
        return f"<<{_quoted(value)}>>" if value else "<<>>"
    return json.dumps(value)


def elixir(value: object) -> str:
    """A reason that JSON carries as nested lists, as an Elixir tuple: `{:no_such_user, "x"}`."""
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        return "'" + "".join(chr(item) for item in value) + "'"
    if isinstance(value, list):
        words = [f":{value[0]}" if value and isinstance(value[0], str) else "", *map(elixir, value)]
        return "{" + ", ".join([words[0], *words[2:]] if words[0] else words[1:]) + "}"
    return json.dumps(value, ensure_ascii=False)


def compact(document: object) -> str:
    """JSON on one line, without spaces."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _arguments(table: dict[str, Any]) -> str:
    return "[" + ",".join(f"{{{_quoted(name)},{_argument(value)}}}" for name, value in table.items()) + "]"


def _argument(value: object) -> str:
    if isinstance(value, dict):
        return _arguments(value)
    if isinstance(value, list):
        return "[" + ",".join(_argument(item) for item in value) + "]"
    if isinstance(value, str):
        return _quoted(value) if value else "[]"
    return json.dumps(value)


def _typed(value: object) -> list[object]:
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["long", value]
    if isinstance(value, float):
        return ["double", value]
    if isinstance(value, dict):
        return ["table", [[name, *_typed(item)] for name, item in value.items()]]
    if isinstance(value, list):
        return ["array", [_typed(item) for item in value]]
    return ["longstr", value]


def _erlang_argument(words: list[str], value: object) -> str:
    kind, _ = _typed(value)
    if isinstance(value, dict):
        text = erlang(TermTable(value))
    elif isinstance(value, list):
        text = "[" + ",".join(_erlang_argument([], item) for item in value) + "]"
    else:
        text = erlang(value)
    return "{" + ",".join([*words, str(kind), text]) + "}"


def _erlang_atom(word: str) -> str:
    plain = word[:1].islower() and all(letter.isalnum() or letter in "_@" for letter in word)
    return word if plain or word.startswith("<") else "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
