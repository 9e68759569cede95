"""Calls to etcd: any member will do, and one that does not answer gives way to the next.

Each endpoint has its own channel. Calls go to one of them until it fails; then all later calls go to the next. Every
call has a deadline, because a member without a majority waits for ever.

There are two kinds of failure. `EtcdDeclined`: etcd refused the call. `EtcdUnavailable`: the call may or may not have
been carried out, or may be carried out later, so a caller that changes something must find out first. `EtcdFull` is of
both kinds: etcd accepts no more changes that need space, but may have carried out this one.

A user's token is requested when etcd asks for one, and again when etcd rejects it.

Invariant: all answers come from one etcd cluster. A member of another one, behind a reused address, is a `StoreError`,
because its keys and revisions mean something else.

Not here: the messages (`node.etcd.messages`), watches (`node.etcd.watch`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio

from warren.errors import ConfigError, StoreError
from warren.node.etcd import messages
from warren.node.etcd.messages import ProtobufMessage
from warren.node.tls import TlsFiles

CALL_DEADLINE_S = 2.0
PATIENCE_S = 10.0
_PAUSE_S = 0.1

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_DEFINITE = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
}
_TOKEN_TROUBLE = ("invalid auth token", "revision of auth store is old", "user name is empty")
_BUSY = "too many requests"
_FULL = "database space exceeded"
_SENTENCES = {
    _FULL: "the metadata store is full: its quota is reached",
    "request is too large": "the change is larger than the metadata store takes at once",
    "permission denied": "the metadata store does not let this user do that",
    "authentication failed, invalid user ID or password": "the metadata store does not know this user and password",
}


class EtcdUnavailable(ConnectionError):
    """The outcome of the call is unknown."""


class EtcdDeclined(StoreError):
    """A member refused the call."""


class EtcdFull(EtcdDeclined):
    """There is no space, or this change took the last of it: etcd may have carried it out and still answer this way."""


@dataclass(frozen=True)
class EtcdAddress:
    """The endpoints of etcd (`HOST:PORT`, the nearest first), and the credentials."""

    endpoints: tuple[str, ...]
    tls: TlsFiles | None = None
    user: str = ""
    password: str = field(default="", repr=False)


class EtcdConnection:
    """Channels to the members. To be made and used within one event loop."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._endpoints: list[str] = []
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._credentials = None if address.tls is None else _credentials(address.tls)
        self._at = 0
        self._token = ""
        self._cluster = 0
        self.use(address.endpoints)

    @property
    def endpoint(self) -> str:
        """The endpoint of the next call."""
        return self._endpoints[self._at]

    def use(self, endpoints: Sequence[str]) -> None:
        """Use these endpoints from now on, the nearest first; calls under way go on."""
        if not endpoints:
            raise ConfigError("the metadata store has no address")
        self._endpoints = list(endpoints)
        self._at = 0

    async def call(
        self, method: str, request: bytes, deadline_s: float = CALL_DEADLINE_S, endpoint: str = ""
    ) -> ProtobufMessage:
        """Call one member, once."""
        asked = endpoint or self.endpoint
        try:
            answer = await self._authorized(asked, method, request, deadline_s)
        except EtcdUnavailable:
            self.give_up(asked)
            raise
        self._check_cluster(answer, asked)
        return answer

    async def ask(self, method: str, request: bytes, patience_s: float = PATIENCE_S) -> ProtobufMessage:
        """Call one member after the other until one answers: only for idempotent calls."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        while True:
            try:
                return await self.call(method, request, min(CALL_DEADLINE_S, max(end - loop.time(), _PAUSE_S)))
            except EtcdUnavailable:
                if loop.time() + _PAUSE_S >= end:
                    raise
                await asyncio.sleep(_PAUSE_S)

    async def open_stream(self, method: str, endpoint: str = "") -> "grpc.aio.StreamStreamCall[bytes, bytes]":
        """A stream with one member, which ends when that member has no leader."""
        if self._address.user and not self._token:
            await self._authenticate(self.endpoint, CALL_DEADLINE_S)
        channel = self._channel(endpoint or self.endpoint)
        return channel.stream_stream(method)(metadata=[*self._metadata(), ("hasleader", "true")])

    def give_up(self, endpoint: str) -> None:
        """The endpoint does not answer: later calls go to the next one."""
        if endpoint == self.endpoint:
            self._at = (self._at + 1) % len(self._endpoints)

    def forget_token(self) -> None:
        self._token = ""

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _authorized(self, endpoint: str, method: str, request: bytes, deadline_s: float) -> ProtobufMessage:
        if self._address.user and not self._token:
            await self._authenticate(endpoint, deadline_s)
        try:
            return await self._attempt(endpoint, method, request, deadline_s)
        except EtcdDeclined as declined:
            if not (self._address.user and is_token_error(str(declined))):
                raise
        await self._authenticate(endpoint, deadline_s)
        return await self._attempt(endpoint, method, request, deadline_s)

    async def _authenticate(self, endpoint: str, deadline_s: float) -> None:
        self._token = ""
        request = messages.credentials(self._address.user, self._address.password)
        self._token = messages.token(await self._attempt(endpoint, messages.AUTHENTICATE, request, deadline_s))

    async def _attempt(self, endpoint: str, method: str, request: bytes, deadline_s: float) -> ProtobufMessage:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel(endpoint).unary_unary(method)
        try:
            return ProtobufMessage(await call(request, timeout=deadline_s, metadata=self._metadata()))
        except grpc.aio.AioRpcError as error:
            raise error_of_call(error.code(), error.details() or "", endpoint) from None
        except ValueError as error:
            raise EtcdUnavailable(f"{endpoint} does not answer as etcd does: {error}") from error

    def _metadata(self) -> list[tuple[str, str]]:
        return [("token", self._token)] if self._token else []

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        channel = self._channels.get(endpoint)
        if channel is None:
            if self._credentials is None:
                channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
            else:
                channel = grpc.aio.secure_channel(endpoint, self._credentials, options=_OPTIONS)
            self._channels[endpoint] = channel
        return channel

    def _check_cluster(self, answer: ProtobufMessage, endpoint: str) -> None:
        cluster = messages.cluster_of(answer)
        if self._cluster == 0:
            self._cluster = cluster
        elif cluster not in (0, self._cluster):
            raise StoreError(f"{endpoint} belongs to another etcd cluster than the members asked before")


def error_of_call(code: grpc.StatusCode, details: str, endpoint: str) -> EtcdUnavailable | EtcdDeclined:
    """The error that a gRPC error means."""
    if code in _DEFINITE and _BUSY not in details:
        reason = details.removeprefix("etcdserver: ").removeprefix("mvcc: ")
        kind = EtcdFull if reason == _FULL else EtcdDeclined
        return kind(_SENTENCES.get(reason, f"the metadata store refuses: {reason}"))
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return EtcdUnavailable(f"the metadata store at {endpoint} does not answer in time")
    return EtcdUnavailable(f"the metadata store at {endpoint} cannot be reached: {details}")


def is_token_error(reason: str) -> bool:
    """Whether another token may help."""
    return any(trouble in reason for trouble in _TOKEN_TROUBLE)


def _credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        _contents("the authorities of the metadata store", files.authorities),
        _contents("the key for the metadata store", files.key),
        _contents("the certificate for the metadata store", files.certificate),
    )


def _contents(what: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{what}, {path}, cannot be read: {error.strerror}") from error
