"""The template for programs without an event loop: every call returns when it is done.

    with open_template(read_settings("shop.toml")) as template:
        template.send({"order": 7})

It is no second implementation: the calls are those of `template.Template`, run in a thread with an event loop and
waited for. It may be used by several threads.

Not here: what the calls do (`template.template`), the thread (`client.loop_thread`).
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from warren.client.loop_thread import LoopThread
from warren.client.settings import Settings
from warren.client.template import template as on_loop
from warren.client.template.template import Overrides, TransactionBuffer, open_transport
from warren.client.transport import Outgoing

__all__ = ["Template", "open_template"]

P = ParamSpec("P")
R = TypeVar("R")


def _waits(
    method: Callable[Concatenate[on_loop.Template, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["Template", P], R]:
    """The method of the same name, waited for."""

    def call(self: "Template", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._inner, *args, **kwargs))

    update_wrapper(call, method)
    return call


class Template:
    """Sends payloads; made by `open_template`, or of a template and the thread in which its transport lives."""

    def __init__(self, thread: LoopThread, inner: on_loop.Template) -> None:
        self._thread = thread
        self._inner = inner

    send = _waits(on_loop.Template.send)
    send_batch = _waits(on_loop.Template.send_batch)
    send_one_way = _waits(on_loop.Template.send_one_way)
    drain = _waits(on_loop.Template.drain)

    def prepare(self, payload: object, **overrides: Unpack[Overrides]) -> Outgoing:
        return self._inner.prepare(payload, **overrides)

    @contextmanager
    def transaction(self) -> Iterator[TransactionBuffer]:
        """For `with`: what is sent by it counts when the block is left, all of it or nothing."""
        together = self._inner.transaction()
        try:
            yield together
        except BaseException:
            together.drop()
            raise
        if not together.is_over:
            self._thread.run(together.commit())

    def submit(self, payload: object, **overrides: Unpack[Overrides]) -> "concurrent.futures.Future[str]":
        """A future for threads, with what `send` returns or raises, once there is room in the window."""
        told: concurrent.futures.Future[str] = concurrent.futures.Future()
        self._thread.run(self._submit(payload, overrides, told))
        return told

    async def _submit(self, payload: object, overrides: Overrides, told: "concurrent.futures.Future[str]") -> None:
        decided = await self._inner.submit(payload, **overrides)
        decided.add_done_callback(lambda future: _tell(told, future))


def _tell(told: "concurrent.futures.Future[str]", decided: "asyncio.Future[str]") -> None:
    if decided.cancelled():
        told.cancel()
    # of a future that its owner has cancelled nobody wants to hear
    elif told.set_running_or_notify_cancel():
        error = decided.exception()
        if error is not None:
            told.set_exception(error)
        else:
            told.set_result(decided.result())


@contextmanager
def open_template(settings: Settings) -> Iterator[Template]:
    """A template on a transport of its own, in a thread of its own."""
    thread = LoopThread()
    try:
        transport = thread.run(open_transport(settings))
        try:
            template = Template(thread, on_loop.Template.of(transport, settings.template))
            yield template
            template.drain()
        finally:
            thread.run(transport.close())
    finally:
        thread.stop()
