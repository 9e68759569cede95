"""Who a user is: passwords checked, tags, and the virtual hosts they may enter.

The broker judges a login, as it judges those of AMQP clients, and remembers good ones; what it refuses it may keep
waiting. How often HTTP clients came and were refused is counted here.

Not here: what a request does with it (`http.login`, `http.levels`).

Who asks: a user with tags, and the virtual hosts they may enter.

Not here: how they proved who they are (`http.login`), what a resource demands (`http.levels`).
"""

from dataclasses import dataclass

from warren.admin.command_queue import CommandQueue
from warren.admin.http.responses import login_failed, not_authorised
from warren.broker.broker import Broker
from warren.broker.commands.requests import Authenticate
from warren.errors import Refused

ADMINISTRATOR = "administrator"
MONITORING = "monitoring"
POLICYMAKER = "policymaker"
MANAGEMENT = "management"


@dataclass(frozen=True)
class ApiUser:
    """A user for the time of one request."""

    name: str
    tags: list[str]
    # the virtual hosts they have any permission in
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
        """Whether they may use the API at all."""
        return self._has(ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)

    def _has(self, *tags: str) -> bool:
        return any(tag in self.tags for tag in tags)


class Authenticator:
    """The node's users."""

    def __init__(self, broker: Broker, command_queue: CommandQueue) -> None:
        self._broker = broker
        self._command_queue = command_queue
        self.attempts = 0
        self.refused = 0

    async def api_user(self, name: str, password: str, peer_host: str) -> ApiUser:
        """The user of this name and password; a fault if there is none."""
        self.attempts += 1
        try:
            await self._command_queue.carry_out(Authenticate(name, password, peer_host))
        except Refused as refusal:
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
        """Count from nothing again."""
        self.attempts = 0
        self.refused = 0
