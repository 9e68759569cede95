"""What a node says once clients can connect: to the log, to systemd, and to scripts, who wait for `ready`.

Not here: when that is (`node.node`).
"""

import os
from dataclasses import dataclass, field

from warren.node import process, systemd
from warren.node.config.settings import NodeSettings
from warren.node.listeners import ListenAddress
from warren.node.logs import Log


@dataclass(frozen=True)
class Presence:
    """Where a node is found, and what it runs on; `amqp`, `amqps`, `http` and `peer` as the ready line has them."""

    loop_name: str
    # every address, by protocol
    listeners: list[tuple[str, ListenAddress]]
    amqp: str
    http: str
    amqps: str = ""
    peer: str = ""
    data: str = "none"
    # files in the journal's directory that are not the node's
    strangers: list[str] = field(default_factory=list)


def announce(settings: NodeSettings, presence: Presence, log: Log) -> None:
    name = settings.broker.node_name
    log.info(
        "node.started",
        name=name,
        pid=os.getpid(),
        core=process.core_kind(),
        loop=presence.loop_name,
        memory_limit_bytes=settings.memory_limit_bytes,
        data=presence.data,
    )
    for protocol, where in presence.listeners:
        log.info("listener.opened", protocol=protocol, address=where)
    _warn(settings, presence, log)
    log.settle()
    optional = [f" {kind}={where}" for kind, where in (("amqps", presence.amqps), ("peer", presence.peer)) if where]
    addresses = f"amqp={presence.amqp} http={presence.http}{''.join(optional)}"
    systemd.ready(f"{name} serves {addresses}")
    print(f"ready name={name} {addresses}", flush=True)


def _warn(settings: NodeSettings, presence: Presence, log: Log) -> None:
    if settings.without_effect:
        log.warning("settings.accepted", keys=",".join(settings.without_effect), effect="accepted, no effect yet")
    if presence.strangers:
        log.warning("files.ignored", names=",".join(presence.strangers), directory="journal")
    if settings.unknown_variables:
        log.warning("environment.ignored", variables=",".join(settings.unknown_variables))
    broker = settings.broker
    if (broker.default_user, broker.default_pass) == ("guest", "guest") and not broker.starts_empty:
        log.warning("credentials.defaulted", user="guest", advice="set default_user and default_pass")
