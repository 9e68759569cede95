"""Where a command gets its deployment from: a file, or a running cluster and a few options.

Not here: what the file says (`ha.document`), what the cluster's answers mean (`ha.discovery`).
"""

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from warren.cli.ctl.api import Api
from warren.cli.ctl.failure import Failure
from warren.errors import ConfigError, WarrenError
from warren.ha import document
from warren.ha.deployment import FRONT_KINDS, Balancer, Deployment, canonical, problem
from warren.ha.discovery import nodes_of

_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Source:
    """What the command line says of it."""

    file: str
    url: str = ""
    user: str = ""
    password: str = ""
    virtual: str = ""
    balancers: tuple[str, ...] = ()
    interface: str = "eth0"
    ca_file: str = ""


def deployment_of(source: Source) -> Deployment:
    if bool(source.file) == bool(source.url):
        raise ConfigError(
            "give the FILE that describes the deployment, or --from with the URL of a running node's HTTP API"
        )
    if source.file and (source.virtual or source.balancers):
        raise ConfigError(f"--virtual and --balancer go with --from; {source.file} has to say what they would")
    return _of_cluster(source) if source.url else read_file(source.file)


def read_file(name: str) -> Deployment:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    return document.parse(text, name)


def credentials(user: str, password: str) -> tuple[str, str]:
    """As `warren ctl` has them."""
    return (
        user or os.environ.get("WARREN_USER") or "guest",
        password or os.environ.get("WARREN_PASSWORD") or "guest",
    )


def _of_cluster(source: Source) -> Deployment:
    if not source.virtual:
        raise ConfigError(
            "--from needs --virtual ADDRESS/LENGTH, the address that clients will know, like 10.0.0.10/24"
        )
    address, slash, length = source.virtual.partition("/")
    if not slash or not length.isascii() or not length.isdigit():
        raise ConfigError(f"--virtual must be like 10.0.0.10/24, not {source.virtual}")
    nodes = nodes_of(*_asked(source))
    kinds = [kind for kind in FRONT_KINDS if any(kind in node.ports for node in nodes)]
    ports = {kind: next(node.ports[kind] for node in nodes if kind in node.ports) for kind in kinds}
    balancers = tuple(_balancer(each, source.interface) for each in source.balancers)
    deployment = Deployment(canonical(address), int(length[:4]), balancers, nodes, ports)
    wrong = problem(deployment)
    if wrong is not None:
        raise ConfigError(wrong)
    return deployment


def _balancer(text: str, interface: str) -> Balancer:
    name, equals, address = text.partition("=")
    if not equals:
        raise ConfigError(f"--balancer must be NAME=ADDRESS, like lb1=10.0.0.11, not {text}")
    address, _, own_interface = address.partition("%")
    return Balancer(name, canonical(address), own_interface or interface)


def _asked(source: Source) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    try:
        with closing(Api(source.url, *credentials(source.user, source.password), source.ca_file, _PATIENCE_S)) as api:
            nodes, overview = api.get("nodes"), api.get("overview")
    except Failure as failure:
        raise WarrenError(f"{source.url} cannot be asked for its nodes: {_last_line(failure.text)}") from failure
    if not _is_rows(nodes) or not isinstance(overview, dict):
        raise WarrenError(f"what answers at {source.url} is no node of Warren: it does not tell of any nodes")
    if not isinstance(overview.get("listeners"), list):
        raise WarrenError(f"{source.url} does not tell this user where the nodes listen: it needs the tag monitoring")
    return nodes, overview["listeners"]


def _is_rows(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(row, dict) and "name" in row for row in found)


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip(" *")
