"""A proxy in front of etcd that counts calls and kills a process at a given call.

So a test can kill a node between any two steps against the store, and knows between which. The proxy can also refuse
all transactions after a node has begun to watch the store.

Not here: losing answers, or holding requests back (`etcd_world.LossyProxy`).
"""

import asyncio
import functools
import os
import signal
import threading
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from tests.support.ports import free_port

_WATCH = "/etcdserverpb.Watch/Watch"
_STREAMS = (_WATCH, "/etcdserverpb.Lease/LeaseKeepAlive")
_TXN = "/etcdserverpb.KV/Txn"


class DeadlyStore:
    """Forwards everything to one member of etcd, at `far`, from a thread.

    Only the node to be killed should use this address, and others the member's: every call counts.
    """

    def __init__(self, endpoint: str) -> None:
        self.far = endpoint
        self.endpoint = f"127.0.0.1:{free_port()}"
        self._victim = 0
        self._calls_left = 0
        # whether transactions are refused: after the next watch has begun, or already
        self._to_be_stubborn = self._stubborn = False
        self.refused = 0

    def kill(self, pid: int, calls: int) -> None:
        """Kill this process at its next call after so many answers, counted from now."""
        self._calls_left = calls
        self._victim = pid

    def spare(self) -> None:
        self._victim = 0

    @property
    def killed(self) -> bool:
        """True if the process was killed."""
        return self._calls_left < 0

    def be_stubborn(self) -> None:
        """Refuse all transactions from the beginning of the next watch on."""
        self._to_be_stubborn = True

    def give_in(self) -> None:
        self._to_be_stubborn = self._stubborn = False

    def __enter__(self) -> "DeadlyStore":
        _do(self._open())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _do(self._close())

    async def _open(self) -> None:
        self._channel = grpc.aio.insecure_channel(self.far)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self._server.add_insecure_port(self.endpoint)
        await self._server.start()

    async def _close(self) -> None:
        await self._server.stop(None)
        await self._channel.close()

    async def answer(self, method: str, request: bytes, context: Any) -> bytes:
        if self._victim:
            self._calls_left -= 1
            if self._calls_left < 0:
                os.kill(self._victim, signal.SIGKILL)
                self._victim = 0
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the caller is dead")
        if self._stubborn and method == _TXN:
            self.refused += 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "it is stubborn")
        try:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
            answered = await call(request)
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        return answered

    async def converse(self, method: str, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._stubborn = self._stubborn or (self._to_be_stubborn and method == _WATCH)
        call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(method)
        async for told in call(requests):
            yield told


def _do(work: Any) -> None:
    asyncio.run_coroutine_threadsafe(work, _loop()).result(20.0)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """One event loop for all proxies, never closed: open calls of a closed server end in it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class _Handler(grpc.GenericRpcHandler):
    """Bytes in, bytes out, for every method."""

    def __init__(self, store: DeadlyStore) -> None:
        self._store = store

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = str(handler_call_details.method)

        async def answer(request: bytes, context: Any) -> bytes:
            return await self._store.answer(method, request, context)

        async def converse(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for told in self._store.converse(method, requests):
                yield told

        if method in _STREAMS:
            return grpc.stream_stream_rpc_method_handler(converse)
        return grpc.unary_unary_rpc_method_handler(answer)
