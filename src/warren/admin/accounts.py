"""Who a user is: passwords checked, tags, and the virtual hosts they may enter.

Not here: what a request does with it (`http.login`, `http.levels`).
"""

from warren.admin.desk import Desk
from warren.admin.http.faults import login_failed
from warren.admin.http.visitor import ADMINISTRATOR, Visitor
from warren.broker.broker import Broker


class Accounts:
    """The node's users."""

    def __init__(self, broker: Broker, desk: Desk) -> None:
        self._broker = broker
        self._desk = desk

    async def visitor(self, name: str, password: str, peer_host: str) -> Visitor:
        """The user of this name and password; a fault if there is none."""
        settings = self._broker.settings
        if (name, password) != (settings.default_user, settings.default_pass):
            raise login_failed()
        return Visitor(name, [ADMINISTRATOR], sorted(self._broker.vhosts))
