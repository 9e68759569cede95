"""The rules of nftables for one machine of a deployment.

They say who may come to the ports of this deployment, and nothing about any other port: whoever loads them over SSH
stays connected. A table of its own is replaced as a whole, so they may be loaded again and again.

Not here: which openings there are (`ha.openings`).
"""

import ipaddress
from collections.abc import Iterator

from warren.errors import ConfigError
from warren.ha.openings import VRRP, Machine, Opening


def nftables_rules(machine: Machine) -> str:
    """A file for `nft -f`."""
    return "\n".join(_lines(machine)) + "\n"


def _lines(machine: Machine) -> Iterator[str]:
    yield "#!/usr/sbin/nft -f"
    yield f"# For {'; '.join(machine.names)} ({machine.address}), written by `warren ha plan`."
    yield "# Only the ports named here are guarded. Another table may still drop what this one accepts."
    yield "table inet warren"
    yield "delete table inet warren"
    yield "table inet warren {"
    yield "    chain input {"
    yield "        type filter hook input priority filter; policy accept;"
    yield "        ct state established,related accept"
    yield '        iif "lo" accept'
    for opening in machine.openings:
        for matching in _sources(opening):
            yield f"        {matching}{_what(opening)} accept comment {_quoted(opening)}"
    ports = sorted({opening.port for opening in machine.openings if opening.port})
    yield f"        tcp dport {{ {', '.join(map(str, ports))} }} counter drop"
    if any(not opening.port for opening in machine.openings):
        yield f"        meta l4proto {VRRP} counter drop"
    yield "    }"
    yield "}"


def _what(opening: Opening) -> str:
    return f"tcp dport {opening.port}" if opening.port else f"meta l4proto {VRRP}"


def _sources(opening: Opening) -> Iterator[str]:
    """One match for each family of addresses; an opening for anybody has one that matches all."""
    if not opening.whom.sources:
        yield ""
        return
    for family, word in ((4, "ip"), (6, "ip6")):
        found = [source for source in opening.whom.sources if _family(source) == family]
        if found:
            yield f"{word} saddr {{ {', '.join(found)} }} "


def _family(source: str) -> int:
    try:
        return ipaddress.ip_network(source).version
    except ValueError:
        raise ConfigError(f"a firewall needs addresses, and {source} is a name") from None


def _quoted(opening: Opening) -> str:
    return '"' + f"{opening.whom.words}: {opening.what}".replace('"', "'")[:120] + '"'
