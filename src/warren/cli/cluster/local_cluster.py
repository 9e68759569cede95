"""The layout of a local cluster: nodes, ports and arguments, stored in `cluster.json`.

A directory has one layout for ever. Options that ask for another are refused, because the nodes' data already contains
their names. Options that are not given keep their stored value, or the default.

Not here: processes (`cli.cluster.node_processes`).
"""

import contextlib
import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from warren.errors import CommandRefused, ConfigError, StoreError

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
COOKIE_BYTES: Final = 32
# offsets from a node's peer port to the client port and the peer port of its etcd member
ETCD_PORTS_BEHIND: Final = (1000, 2000)
FREE_PORT_ATTEMPTS: Final = 200
FREE_PORT_MIN: Final = 28_000
FREE_PORT_MAX: Final = 30_700
DEFAULTS: Final[dict[str, Any]] = {
    "nodes": 3,
    "ram": 0,
    "witness": False,
    "amqp": 5701,
    "http": 15701,
    "peer": 25701,
    "config": "",
}


@dataclass(frozen=True)
class LocalClusterOptions:
    """The options of `up`; None if not given. A first port of 0 means free ports."""

    nodes: int | None = None
    ram: int | None = None
    witness: bool | None = None
    amqp: int | None = None
    http: int | None = None
    peer: int | None = None
    config: str | None = None


@dataclass(frozen=True)
class LocalNode:
    """One node; `arguments` are those of `warren`."""

    name: str
    kind: str
    amqp: int
    http: int
    peer: int
    arguments: list[str]

    @property
    def full_name(self) -> str:
        return f"{self.name}@localhost"


@dataclass(frozen=True)
class LocalCluster:
    """A cluster and its directory; `made_with` are the options it was created with."""

    directory: Path
    made_with: dict[str, Any]
    nodes: list[LocalNode]

    def node(self, name: str) -> LocalNode:
        for node in self.nodes:
            if name in (node.name, node.full_name):
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise ConfigError(f"there is no node {name} in {self.directory}; there are {names}")

    def environment(self) -> dict[str, str]:
        """Environment of the nodes: the cookie, and a metrics port for each."""
        return {
            "WARREN_CLUSTER__COOKIE_FILE": str(self.directory / "cookie"),
            "WARREN_PROMETHEUS__TCP__IP": HOST,
            "WARREN_PROMETHEUS__TCP__PORT": "0",
        }


def make_cluster(directory: Path, options: LocalClusterOptions) -> LocalCluster:
    """The stored layout of a directory, or a new one from these options."""
    kept = _read_cluster_file(directory)
    if kept is not None:
        _refuse_changes(kept, options)
        return kept
    layout = _planned(directory, options)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _keep_cookie(directory / "cookie")
        document = {"made_with": layout.made_with, "nodes": [asdict(node) for node in layout.nodes]}
        write_atomically(directory / "cluster.json", f"{json.dumps(document, indent=2)}\n")
    except OSError as error:
        raise ConfigError(f"--data {directory} cannot be written to: {error.strerror}") from error
    return layout


def load_cluster(directory: Path) -> LocalCluster:
    """The stored layout of a directory."""
    kept = _read_cluster_file(directory)
    if kept is None:
        command = f"'warren cluster up --data {directory}'"
        raise CommandRefused("not_found", f"there is no cluster in {directory}; {command} makes one")
    return kept


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other commands from starting and stopping nodes meanwhile."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise ConfigError(f"--data {directory} cannot be written to: {error.strerror}") from error
    with os.fdopen(descriptor):
        _lock(descriptor, directory)
        yield


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        reason = f"another 'warren cluster' is starting or stopping the nodes in {directory}; wait until it is done"
        raise CommandRefused("bad_request", reason) from error


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that readers see the old content or the new."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_text(text)
    unfinished.replace(path)


def _read_cluster_file(directory: Path) -> LocalCluster | None:
    path = directory / "cluster.json"
    try:
        document = json.loads(path.read_text())
        nodes = [LocalNode(**fields) for fields in document["nodes"]]
        return LocalCluster(directory, document["made_with"], nodes)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path} is damaged; restore it, or choose another directory with --data") from error


def _refuse_changes(kept: LocalCluster, options: LocalClusterOptions) -> None:
    for option, given in asdict(options).items():
        was = kept.made_with.get(option, DEFAULTS[option])
        if given is not None and given != was:
            raise CommandRefused(
                "bad_request",
                f"the cluster in {kept.directory} was made with --{option} {was or 'not given'}, and stays so; "
                "choose another directory with --data, or remove that one when its nodes are down",
            )


def _planned(directory: Path, options: LocalClusterOptions) -> LocalCluster:
    made_with = {**DEFAULTS, **{option: wish for option, wish in asdict(options).items() if wish is not None}}
    count, ram = made_with["nodes"], made_with["ram"]
    if ram >= count:
        raise ConfigError(f"--ram {ram} of {count} nodes leaves none with a disc; there must be one")
    if made_with["witness"] and (ram or count < 2):
        raise ConfigError("--witness makes the last node a witness: it needs another node, and no RAM nodes")
    kinds = ["disc"] * (count - ram) + ["ram"] * ram
    if made_with["witness"]:
        kinds[-1] = "witness"
    ports = _ports(made_with)
    nodes = []
    for index in range(count):
        amqp, http, peer = (ports[kind][index] for kind in ("amqp", "http", "peer"))
        node = LocalNode(f"n{index + 1}", kinds[index], amqp, http, peer, [])
        node.arguments.extend(_arguments(node, directory, made_with["config"]))
        if index > 0:
            node.arguments.extend(["--join", f"{HOST}:{ports['peer'][0]}"])
        nodes.append(node)
    return LocalCluster(directory, made_with, nodes)


def _arguments(node: LocalNode, directory: Path, config: str) -> list[str]:
    arguments = ["serve", "--name", node.full_name, "--data", str(directory / node.name)]
    for kind, port in (("amqp", node.amqp), ("http", node.http), ("peer", node.peer)):
        arguments += [f"--{kind}", f"{HOST}:{port}"]
    if config:
        arguments += ["--config", config]
    if node.kind != "disc":
        arguments.append(f"--{node.kind}")
    return arguments


def _ports(made_with: dict[str, Any]) -> dict[str, list[int]]:
    """For each kind of listener one port per node. No two listeners or etcd members may share a port."""
    count = made_with["nodes"]
    chosen: dict[str, list[int]] = {}
    taken: dict[int, str] = {}
    for kind in ("peer", "amqp", "http"):
        first, behind = made_with[kind], ETCD_PORTS_BEHIND if kind == "peer" else ()
        ports = list(range(first, first + count)) if first else _free_ports(count, behind, taken)
        for port in [port + step for port in ports for step in (0, *behind)]:
            if port > PORT_MAX:
                raise ConfigError(f"--{kind} {first} is too high: port {port} would be needed, too")
            if port in taken:
                raise ConfigError(f"--{kind} and --{taken[port]} both need port {port}, for {count} nodes")
            taken[port] = kind
        chosen[kind] = ports
    return chosen


def _free_ports(count: int, behind: Sequence[int], taken: Collection[int]) -> list[int]:
    """Ports that are free, with the ports at these offsets, and not in `taken`.

    They are below the range for outgoing connections, so a stopped node does not lose its port.
    """
    found: list[int] = []
    claimed = set(taken)
    for port in random.sample(range(FREE_PORT_MIN, FREE_PORT_MAX), FREE_PORT_ATTEMPTS):
        wanted = [port + step for step in (0, *behind)]
        if len(found) < count and claimed.isdisjoint(wanted) and _are_free(wanted):
            found.append(port)
            claimed.update(wanted)
    if len(found) < count:
        raise ConfigError(f"there are no {count} free ports on {HOST}; name the first ones to use")
    return found


def _are_free(ports: Sequence[int]) -> bool:
    try:
        with contextlib.ExitStack() as listening:
            for port in ports:
                listening.enter_context(socket.create_server((HOST, port)))
    except OSError:
        return False
    return True


def _keep_cookie(path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_hex(COOKIE_BYTES)}\n")
