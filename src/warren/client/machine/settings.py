"""The settings of a connection: user, virtual host, and the limits that the client asks for.

Not here: hosts, TLS, timeouts (`warren.client.uri`).
"""

from typing import Final, final

from warren.wire.field_tables import Table

PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"

AS_SUGGESTED: Final = -1
"""Take the broker's heartbeat."""


@final
class ClientSettings:
    """A limit of 0 leaves the choice to the broker; a heartbeat of 0 means none."""

    def __init__(
        self,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        mechanism: str = PLAIN,
        heartbeat_s: int = AS_SUGGESTED,
        channel_max: int = 0,
        frame_max: int = 0,
        client_properties: Table | None = None,
    ) -> None:
        self.user: str = user
        self.password: str = password
        self.vhost: str = vhost
        self.mechanism: str = mechanism
        self.heartbeat_s: int = heartbeat_s
        self.channel_max: int = channel_max
        self.frame_max: int = frame_max
        self.client_properties: Table = {} if client_properties is None else client_properties

    def __repr__(self) -> str:
        return f"<ClientSettings of {self.user!r} for {self.vhost!r}>"
