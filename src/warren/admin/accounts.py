"""Who a user is: passwords checked, tags, and the virtual hosts they may enter.

The broker judges a login, as it judges those of AMQP clients, and remembers good ones; what it refuses it may keep
waiting. How often HTTP clients came and were refused is counted here.

Not here: what a request does with it (`http.login`, `http.levels`).
"""

from warren.access.commands import Authenticate
from warren.admin.desk import Desk
from warren.admin.http.faults import login_failed, not_authorised
from warren.admin.http.visitor import Visitor
from warren.broker.broker import Broker
from warren.errors import Refused


class Accounts:
    """The node's users."""

    def __init__(self, broker: Broker, desk: Desk) -> None:
        self._broker = broker
        self._desk = desk
        self.attempts = 0
        self.refused = 0

    async def visitor(self, name: str, password: str, peer_host: str) -> Visitor:
        """The user of this name and password; a fault if there is none."""
        self.attempts += 1
        try:
            await self._desk.carry_out(Authenticate(name, password, peer_host))
        except Refused as refusal:
            self.refused += 1
            if refusal.reason.endswith("can only connect via localhost"):
                raise not_authorised("User can only log in via localhost") from None
            raise login_failed() from None
        user = self._broker.access.users.get(name)
        if user is None:
            raise login_failed()
        vhosts = [permission.vhost for permission in self._broker.access.permissions_of_user(name)]
        return Visitor(name, list(user.tags), sorted(vhosts))

    def forget_attempts(self) -> None:
        """Count from nothing again."""
        self.attempts = 0
        self.refused = 0
