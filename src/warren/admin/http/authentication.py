"""API users: name, tags, the virtual hosts they may enter; and checking their passwords.

The broker checks a login as it does for AMQP clients, caches successful ones and may delay refusals. This module counts
attempts and refusals over HTTP.

Not here: the `authorization` header (`http.application`), access levels (`http.router`).
"""

from dataclasses import dataclass

from warren.admin.command_queue import CommandQueue
from warren.admin.http.responses import login_failed, not_authorised
from warren.broker.broker import Broker
from warren.broker.commands.requests import Authenticate
from warren.errors import CommandRefused

ADMINISTRATOR = "administrator"
MONITORING = "monitoring"
POLICYMAKER = "policymaker"
MANAGEMENT = "management"


@dataclass(frozen=True)
class ApiUser:
    """The user of one request."""

    name: str
    tags: list[str]
    # virtual hosts in which the user has any permission
    vhosts: list[str]

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATOR in self.tags

    @property
    def is_monitor(self) -> bool:
        return self._has(ADMINISTRATOR, MONITORING)

    @property
    def is_policymaker(self) -> bool:
        return self._has(ADMINISTRATOR, POLICYMAKER)

    @property
    def may_manage(self) -> bool:
        """Whether the user has a tag that allows use of the API."""
        return self._has(ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)

    def _has(self, *tags: str) -> bool:
        return any(tag in self.tags for tag in tags)


class Authenticator:
    """Checks logins against the broker's users."""

    def __init__(self, broker: Broker, command_queue: CommandQueue) -> None:
        self._broker = broker
        self._command_queue = command_queue
        self.attempts = 0
        self.refused = 0

    async def api_user(self, name: str, password: str, peer_host: str) -> ApiUser:
        """The user with this name and password; a fault if the broker refuses them."""
        self.attempts += 1
        try:
            await self._command_queue.carry_out(Authenticate(name, password, peer_host))
        except CommandRefused as refusal:
            self.refused += 1
            if refusal.reason.endswith("can only connect via localhost"):
                raise not_authorised("User can only log in via localhost") from None
            raise login_failed() from None
        user = self._broker.access.users.get(name)
        if user is None:
            raise login_failed()
        vhosts = [permission.vhost for permission in self._broker.access.permissions_of_user(name)]
        return ApiUser(name, list(user.tags), sorted(vhosts))

    def forget_attempts(self) -> None:
        """Reset the counters."""
        self.attempts = 0
        self.refused = 0
