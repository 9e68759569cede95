"""A deployment as a TOML file: reading, with a sentence for each error, and writing.

Not here: rules for a deployment (`cli.ha.deployment.problem`).
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from warren.cli.ha.deployment import (
    AMQP,
    DISC,
    FRONT_KINDS,
    HTTP,
    METRICS,
    PEER,
    PROGRAM,
    USUAL_PORTS,
    Balancer,
    BrokerNode,
    Deployment,
    HaproxySettings,
    KeepalivedSettings,
    canonical,
    canonical_network,
    problem,
)
from warren.errors import ConfigError

S = TypeVar("S", HaproxySettings, KeepalivedSettings)
_TOP = (
    "virtual_address",
    "proxy_protocol",
    "clients",
    "operators",
    "program",
    "ports",
    "balancers",
    "nodes",
    "haproxy",
    "keepalived",
)
_NODE_PORTS = (*FRONT_KINDS, PEER, METRICS)
_NODE_KEYS = ("name", "address", "kind", *_NODE_PORTS)
_PLAIN = re.compile(r"[A-Za-z0-9._/@+-]*")
_WORDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    dict: "a table",
}


def parse_deployment(text: str, source: str) -> Deployment:
    """The deployment that a file describes; `ConfigError` names the file and the error."""
    try:
        return _deployment(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise ConfigError(f"{source}: {error}") from error


def deployment_text(deployment: Deployment) -> str:
    """A file that describes the deployment."""
    lines = [
        "# The deployment that the files beside this one were made for.",
        "",
        f'virtual_address = "{deployment.virtual_address}/{deployment.prefix}"',
        f"proxy_protocol = {_term(deployment.proxy_protocol)}",
        f"clients = {_term(list(deployment.clients))}",
        f"operators = {_term(list(deployment.operators))}",
        f"program = {_term(deployment.program)}",
        *_table("[ports]", deployment.ports),
        *_table("[haproxy]", asdict(deployment.haproxy)),
        *_table("[keepalived]", asdict(deployment.keepalived)),
    ]
    for balancer in deployment.balancers:
        lines += _table("[[balancers]]", asdict(balancer))
    for node in deployment.nodes:
        lines += _table(
            "[[nodes]]", {"name": node.name, "address": node.address, "kind": node.kind, **_sorted(node.ports)}
        )
    return "\n".join(lines) + "\n"


def _sorted(ports: Mapping[str, int]) -> dict[str, int]:
    return {kind: ports[kind] for kind in _NODE_PORTS if kind in ports}


def _table(heading: str, values: Mapping[str, object]) -> list[str]:
    return ["", heading, *(f"{key} = {_term(value)}" for key, value in values.items())]


def _term(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_term, value))}]"
    # values of a deployment contain no quotes or backslashes
    return f'"{value}"' if isinstance(value, str) else str(value)


def _deployment(table: dict[str, Any]) -> Deployment:
    _check_keys(table, _TOP, "")
    virtual, slash, prefix = _value(table, "virtual_address", str, "").partition("/")
    if not slash or not prefix.isascii() or not prefix.isdigit():
        raise ValueError("virtual_address must be an address with the length of its network, like 10.0.0.10/24")
    ports = _ports(_value(table, "ports", dict, "", {AMQP: USUAL_PORTS[AMQP], HTTP: USUAL_PORTS[HTTP]}))
    deployment = Deployment(
        virtual_address=canonical(virtual),
        prefix=int(prefix[:4]),
        balancers=tuple(_balancer(each, number) for number, each in _tables(table, "balancers")),
        nodes=tuple(_node(each, number, ports) for number, each in _tables(table, "nodes")),
        ports=ports,
        proxy_protocol=_value(table, "proxy_protocol", bool, "", True),
        clients=_networks(table, "clients"),
        operators=_networks(table, "operators"),
        program=_plain(_value(table, "program", str, "", PROGRAM), "program"),
        haproxy=_settings(HaproxySettings, table, "haproxy"),
        keepalived=_settings(KeepalivedSettings, table, "keepalived"),
    )
    wrong = problem(deployment)
    if wrong is not None:
        raise ValueError(wrong)
    return deployment


def _ports(table: dict[str, Any]) -> dict[str, int]:
    _check_keys(table, FRONT_KINDS, "ports.")
    return {kind: _value(table, kind, int, "ports.") for kind in FRONT_KINDS if kind in table}


def _networks(table: dict[str, Any], name: str) -> tuple[str, ...]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f'{name} must be a list of networks, like ["10.1.0.0/16"]')
    return tuple(dict.fromkeys(map(canonical_network, found)))


def _tables(table: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"{name} must be tables, each with the heading [[{name}]]")
    return list(enumerate(found, 1))


def _balancer(table: dict[str, Any], number: int) -> Balancer:
    place = f"balancers.{number}."
    _check_keys(table, [each.name for each in fields(Balancer)], place)
    name, address = (_value(table, key, str, place) for key in ("name", "address"))
    return Balancer(name, canonical(address), _value(table, "interface", str, place))


def _node(table: dict[str, Any], number: int, front: Mapping[str, int]) -> BrokerNode:
    """A node listens on the ports of the virtual address unless it has its own; a port of 0 means none."""
    place = f"nodes.{number}."
    _check_keys(table, _NODE_KEYS, place)
    usual = {**front, PEER: USUAL_PORTS[PEER]}
    ports = {kind: _value(table, kind, int, place, usual.get(kind, 0)) for kind in _NODE_PORTS}
    return BrokerNode(
        _value(table, "name", str, place),
        canonical(_value(table, "address", str, place)),
        _value(table, "kind", str, place, DISC),
        {kind: port for kind, port in ports.items() if port},
    )


def _settings(kind: type[S], table: dict[str, Any], name: str) -> S:
    given = _value(table, name, dict, "", {})
    known = {each.name: type(each.default) for each in fields(kind)}
    _check_keys(given, list(known), f"{name}.")
    values = {key: _value(given, key, known[key], f"{name}.") for key in given}
    for key, value in values.items():
        if isinstance(value, str):
            _plain(value, f"{name}.{key}")
    return kind(**values)


def _plain(value: str, key: str) -> str:
    """Check that the value is valid unquoted in all configurations."""
    if not _PLAIN.fullmatch(value):
        raise ValueError(
            f"{key} must be letters, digits, slashes, dots and dashes, with no spaces and no quotes, not {value!r}"
        )
    return value


def _check_keys(table: Mapping[str, object], keys: tuple[str, ...] | list[str], place: str) -> None:
    for key in table:
        if key not in keys:
            nearest = difflib.get_close_matches(key, keys, 1)
            hint = f"; is {place}{nearest[0]} meant?" if nearest else f"; known are {', '.join(keys)}"
            raise ValueError(f"there is no {place}{key}{hint}")


def _value(table: Mapping[str, Any], key: str, kind: type, place: str, default: object = None) -> Any:
    value = table.get(key, default)
    if value is None:
        raise ValueError(f"{place}{key} is missing")
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{place}{key} must be {_WORDS[kind]}, not {value!r}")
    return value
