"""What an operator may ask about users, permissions, virtual hosts and limits.

A password comes as its hash: computing one takes longer than a turn may.

Not here: how they are carried out (`broker.access`), how a password is hashed (`access.hashing`).
"""

from typing import final

from warren.model.commands import Command


@final
class PutUser(Command):
    """Make a user, or give one a new password and tags; its limits stay. Answered by whether it is new."""

    def __init__(self, name: str, password_hash: bytes, hashing_algorithm: str, tags: list[str]) -> None:
        self.name = name
        self.password_hash = password_hash
        self.hashing_algorithm = hashing_algorithm
        self.tags = tags


@final
class DeleteUser(Command):
    """Remove a user with all its permissions; its connections are closed."""

    def __init__(self, name: str) -> None:
        self.name = name


@final
class Authenticate(Command):
    """Find out whether this is the user's password, and whether it may come from there; `Refused` if not."""

    def __init__(self, user: str, password: str, peer_host: str) -> None:
        self.user = user
        self.password = password
        self.peer_host = peer_host


@final
class SetPermission(Command):
    """Answered by whether the user had none in that virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.configure = configure
        self.write = write
        self.read = read


@final
class ClearPermission(Command):
    """The user may not enter the virtual host any more; who is in it can do nothing there."""

    def __init__(self, user: str, vhost: str) -> None:
        self.user = user
        self.vhost = vhost


@final
class SetTopicPermission(Command):
    """Answered by whether the user had none on that exchange."""

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange
        self.write = write
        self.read = read


@final
class ClearTopicPermission(Command):
    """On one exchange, or on all of the virtual host's (`exchange` is None)."""

    def __init__(self, user: str, vhost: str, exchange: str | None) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange


@final
class SetUserLimits(Command):
    """Limits that are not named stay as they are."""

    def __init__(self, user: str, limits: dict[str, object]) -> None:
        self.user = user
        self.limits = limits


@final
class ClearUserLimits(Command):
    """Those named, or all of them (`names` is None)."""

    def __init__(self, user: str, names: list[str] | None) -> None:
        self.user = user
        self.names = names


@final
class PutVhost(Command):
    """Make a virtual host, or describe one anew; `tracing` None leaves that as it is. Answered by whether it is new."""

    def __init__(self, name: str, description: str, tags: list[str], tracing: bool | None) -> None:
        self.name = name
        self.description = description
        self.tags = tags
        self.tracing = tracing


@final
class DeleteVhost(Command):
    """Remove a virtual host with all there is in it; its connections are closed."""

    def __init__(self, name: str) -> None:
        self.name = name


@final
class SetVhostLimits(Command):
    """Limits that are not named stay as they are."""

    def __init__(self, vhost: str, limits: dict[str, object]) -> None:
        self.vhost = vhost
        self.limits = limits


@final
class ClearVhostLimits(Command):
    """Those named, or all of them (`names` is None)."""

    def __init__(self, vhost: str, names: list[str] | None) -> None:
        self.vhost = vhost
        self.names = names
