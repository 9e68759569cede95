"""Who may log in.

Not here: how a client offers its proof (`session.handshake`).
"""

import hmac
import ipaddress
from typing import final

from warren.model.settings import BrokerSettings
from warren.session.ports import LoginAttempt


@final
class Access:
    """The users of a node: the default one."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._passwords: dict[str, str] = {settings.default_user: settings.default_pass}
        self._loopback_users: list[str] = settings.loopback_users

    def refusal_of(self, attempt: LoginAttempt) -> str:
        """Why this login is refused; empty when it is good. For the log, never for the client."""
        password = self._passwords.get(attempt.user)
        if password is None:
            return f"user '{attempt.user}' - invalid credentials"
        if not attempt.external and not _same(password, attempt.password):
            return f"user '{attempt.user}' - invalid credentials"
        if attempt.user in self._loopback_users and not is_loopback(attempt.peer_host):
            return f"user '{attempt.user}' can only connect via localhost"
        return ""


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped.is_loopback if mapped is not None else address.is_loopback


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape"))
