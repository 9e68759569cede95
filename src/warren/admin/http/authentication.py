"""API users: name, tags, the virtual hosts they may enter; and checking their credentials.

The broker checks a login as it does for AMQP clients, caches successful ones and may delay refusals. This module counts
attempts and refusals over HTTP.

Not here: the `authorization` header (`http.application`), access levels (`http.router`).
"""

from dataclasses import dataclass, field

from warren.admin.command_queue import CommandQueue
from warren.admin.http.responses import login_failed, not_authorised
from warren.broker.broker import Broker
from warren.broker.commands.requests import Authenticate, ListVhostsOf
from warren.broker.model.identity import Identity
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
    # virtual hosts that the user may enter
    vhosts: list[str]
    # with which the broker carries out the user's orders
    identity: Identity = field(default_factory=lambda: Identity(""), compare=False)

    @property
    def definer(self) -> str | None:
        """The definer of the user's parameters. None: a login without a user of this broker, of which nothing stays."""
        return self.name if self.identity.is_internal() else None

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
    """Checks logins with the broker's backends."""

    def __init__(self, broker: Broker, command_queue: CommandQueue) -> None:
        self._broker = broker
        self._command_queue = command_queue
        self.attempts = 0
        self.refused = 0

    async def api_user(self, name: str, password: str, peer_host: str) -> ApiUser:
        """The user with this name and password; a fault if the broker refuses them."""
        self.attempts += 1
        try:
            identity = await self._command_queue.carry_out(Authenticate(name, password, peer_host))
        except CommandRefused as refusal:
            self.refused += 1
            if refusal.reason.endswith("can only connect via localhost"):
                raise not_authorised("User can only log in via localhost") from None
            raise login_failed() from None
        assert isinstance(identity, Identity)
        return ApiUser(identity.name, self._broker.tags(identity), await self._vhosts_of(identity, peer_host), identity)

    async def _vhosts_of(self, identity: Identity, peer_host: str) -> list[str]:
        if identity.answers_later():
            names = await self._command_queue.carry_out(ListVhostsOf(identity, peer_host))
            assert isinstance(names, list)
            return names
        return sorted(vhost for vhost in self._broker.vhosts if self._broker.may_enter(identity, vhost))

    def forget_attempts(self) -> None:
        """Reset the counters."""
        self.attempts = 0
        self.refused = 0
