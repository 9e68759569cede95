"""Who asks: a user with tags, and the virtual hosts they may enter.

Not here: how they proved who they are (`http.login`), what a resource demands (`http.levels`).
"""

from dataclasses import dataclass

ADMINISTRATOR = "administrator"
MONITORING = "monitoring"
POLICYMAKER = "policymaker"
MANAGEMENT = "management"


@dataclass(frozen=True)
class Visitor:
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
