"""A connection to a broker for asyncio programs, and how it is opened from a URL.

Connecting tries each host in turn, and starts again after a delay if the URL says so. A broker that refuses the login
or the virtual host has answered, and no other host is tried. Any other failure (connection refused, no answer, a broker
that is shutting down) leads to the next host. A client that reconnects tries all hosts in any case: one broker of
several may have lost its virtual host or its users for a while.

Not here: the options of a URL (`client.uri`), blocking connections (`client.blocking`).
"""

import asyncio
import ssl
from typing import Final

import warren
from warren.client.channel import Channel
from warren.client.errors import CannotConnect, ClientError, ConnectionClosed, LoginRefused, UriError
from warren.client.machine.connection import CLOSING
from warren.client.machine.events import HandshakeCompleted
from warren.client.machine.settings import ClientSettings
from warren.client.protocol import ClientProtocol
from warren.client.uri import BrokerAddress, ConnectionTarget, parse_uri
from warren.client.with_blocks import AsyncClosedAtEnd
from warren.errors import ACCESS_REFUSED, NOT_ALLOWED, NOT_FOUND
from warren.wire.field_tables import Table

CLOSE_DEADLINE_S: Final = 10.0


class Connection(AsyncClosedAtEnd):
    """`warren.client.connect` opens it."""

    def __init__(self, protocol: ClientProtocol, opened: HandshakeCompleted, address: BrokerAddress) -> None:
        self._protocol = protocol
        self._opened = opened
        self.address = address

    @property
    def server_properties(self) -> Table:
        """The broker's properties."""
        return self._opened.server_properties

    @property
    def heartbeat_s(self) -> int:
        return self._opened.heartbeat_s

    @property
    def frame_max(self) -> int:
        return self._opened.frame_max

    @property
    def channel_max(self) -> int:
        return self._opened.channel_max

    @property
    def is_open(self) -> bool:
        return not self._protocol.ended

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker takes no publishes at present; None if it does. Publishers wait."""
        return self._protocol.blocked_reason

    async def channel(self, *, confirms: bool = False, window: int | None = None) -> Channel:
        """Open a channel; with `confirms` the broker confirms each publish."""
        if self._protocol.ended:
            raise self._protocol.error()
        if self._is_closing:
            raise ConnectionClosed("the connection is being closed")
        machine, ticket = self._protocol.machine.open_channel()
        channel = Channel(self._protocol, machine)
        try:
            await self._protocol.answer(ticket)
            if confirms:
                await channel.confirm(window)
        except BaseException:
            channel.leave()
            raise
        return channel

    async def closed(self) -> ClientError:
        """Return the reason when the connection has ended."""
        await asyncio.shield(self._protocol.closed)
        return self._protocol.error()

    async def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Close the connection, within the deadline."""
        try:
            async with asyncio.timeout(deadline_s):
                if not self._protocol.ended:
                    if not self._is_closing:
                        self._protocol.machine.close()
                    self._protocol.flush()
                    with self._protocol.read_demand:
                        await self.closed()
                await asyncio.shield(self._protocol.gone)
        except TimeoutError:
            self._protocol.abort()
            await self._protocol.gone

    @property
    def _is_closing(self) -> bool:
        return self._protocol.machine.state == CLOSING


CALL_TIMEOUT_S: Final = 60.0
FINAL_CODES: Final = (ACCESS_REFUSED, NOT_FOUND, NOT_ALLOWED)


async def connect(
    url: str,
    *,
    name: str = "",
    call_timeout_s: float = CALL_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
) -> Connection:
    """Connect to the first host of an AMQP URL that answers; `name` is shown to the broker's operators."""
    return await Dialer(url, name=name, call_timeout_s=call_timeout_s, ssl_context=ssl_context).connect()


class Dialer:
    """The parsed options of a URL, for repeated connects."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        call_timeout_s: float = CALL_TIMEOUT_S,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._target = parse_uri(url)
        self._context = (ssl_context or tls_context(self._target)) if self._target.tls else None
        self._settings = _settings(self._target, name)
        self._call_timeout_s = call_timeout_s

    async def connect(self) -> Connection:
        """Connect with as many attempts as the URL allows."""
        for _ in range(self._target.connection_attempts - 1):
            try:
                return await self.connect_once()
            except CannotConnect:
                await asyncio.sleep(self._target.retry_delay_s)
        return await self.connect_once()

    async def connect_once(self, *, behind: BrokerAddress | None = None) -> Connection:
        """Try each host once, beginning with the host after `behind`, the one that was lost.

        With `behind`, `LoginRefused` is raised only if every host refuses the login.
        """
        addresses = self._target.addresses
        first = addresses.index(behind) + 1 if behind in addresses else 0
        attempts: list[tuple[str, str]] = []
        refusals: list[LoginRefused] = []
        for address in addresses[first:] + addresses[:first]:
            try:
                return await _connect_to(address, self._target, self._settings, self._context, self._call_timeout_s)
            except (OSError, TimeoutError, ClientError, ValueError) as trouble:
                if behind is None and _is_final(trouble):
                    raise
                refusals += [trouble] if isinstance(trouble, LoginRefused) else []
                attempts.append((str(address), _reason(trouble, self._target)))
        if len(refusals) == len(attempts):
            raise refusals[0]
        raise CannotConnect(attempts)


def _is_final(trouble: Exception) -> bool:
    """Whether a broker answered with an error that every broker would give."""
    if isinstance(trouble, ConnectionClosed):
        return trouble.code in FINAL_CODES
    return isinstance(trouble, LoginRefused)


def tls_context(target: ConnectionTarget) -> ssl.SSLContext:
    """The TLS context of a URL; without a `cacertfile` it trusts the system's authorities."""
    try:
        context = ssl.create_default_context(cafile=target.cacertfile or None)
        if target.certfile:
            context.load_cert_chain(target.certfile, target.keyfile or None)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(name for name in (target.cacertfile, target.certfile, target.keyfile) if name)
        raise UriError(f"cannot use the TLS files of the URL ({files}): {error}") from error
    if not target.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _settings(target: ConnectionTarget, name: str) -> ClientSettings:
    properties: Table = {"product": "Warren client", "version": warren.__version__, "platform": "Python"}
    if name:
        properties["connection_name"] = name
    return ClientSettings(
        target.user,
        target.password,
        target.vhost,
        target.mechanism,
        target.heartbeat_s,
        target.channel_max,
        target.frame_max,
        properties,
    )


async def _connect_to(
    address: BrokerAddress,
    target: ConnectionTarget,
    settings: ClientSettings,
    context: ssl.SSLContext | None,
    call_timeout_s: float,
) -> Connection:
    loop = asyncio.get_running_loop()
    protocol = ClientProtocol(settings, call_timeout_s)
    server_name = (target.server_name or address.host) if context is not None else None
    try:
        async with asyncio.timeout(target.connection_timeout_s):
            await loop.create_connection(
                lambda: protocol, address.host, address.port, ssl=context, server_hostname=server_name
            )
            return Connection(protocol, await protocol.opened, address)
    except BaseException:
        protocol.opened.cancel()
        protocol.abort()
        raise


def _reason(trouble: Exception, target: ConnectionTarget) -> str:
    if isinstance(trouble, TimeoutError):
        return f"no answer within {target.connection_timeout_s:g} s"
    if isinstance(trouble, ConnectionRefusedError):
        return "connection refused"
    if isinstance(trouble, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {trouble.verify_message}"
    if isinstance(trouble, OSError):
        return trouble.strerror or str(trouble)
    return str(trouble)
