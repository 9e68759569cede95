"""What a client wants of a connection: who it is, where it goes, and the limits it asks for.

Not here: hosts, TLS, timeouts (`warren.client.uri`).
"""

from typing import Final, final

from warren.wire.field_tables import Table

PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"

AS_SUGGESTED: Final = -1
"""A heartbeat that is the broker's to choose."""


@final
class ClientSettings:
    """A limit of 0 is the broker's to choose; a heartbeat of 0 means none."""

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
