"""The template for programs without an event loop: every call blocks until it is done.

    with open_template(read_settings("shop.toml")) as template:
        template.send({"order": 7})

This is not a second implementation: a thread with an event loop runs the calls of `template.Template`. Several threads
may use it.

Not here: the calls themselves (`template.template`), the thread (`client.loop_thread`).
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
    """The blocking form of a coroutine method."""

    def call(self: "Template", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._inner, *args, **kwargs))

    update_wrapper(call, method)
    return call


class Template:
    """Sends payloads; made by `open_template`, or from a template and the thread of its transport."""

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
        """A `with` block; when it is left, all messages sent in it are committed, or none."""
        together = self._inner.transaction()
        try:
            yield together
        except BaseException:
            together.drop()
            raise
        if not together.is_over:
            self._thread.run(together.commit())

    def submit(self, payload: object, **overrides: Unpack[Overrides]) -> "concurrent.futures.Future[str]":
        """A future with the result of `send`, as soon as the window has room."""
        outcome: concurrent.futures.Future[str] = concurrent.futures.Future()
        self._thread.run(self._submit(payload, overrides, outcome))
        return outcome

    async def _submit(self, payload: object, overrides: Overrides, outcome: "concurrent.futures.Future[str]") -> None:
        decided = await self._inner.submit(payload, **overrides)
        decided.add_done_callback(lambda future: _copy_result(outcome, future))


def _copy_result(outcome: "concurrent.futures.Future[str]", decided: "asyncio.Future[str]") -> None:
    if decided.cancelled():
        outcome.cancel()
    # a future that its owner cancelled gets no result
    elif outcome.set_running_or_notify_cancel():
        error = decided.exception()
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(decided.result())


@contextmanager
def open_template(settings: Settings) -> Iterator[Template]:
    """A template with its own transport and thread."""
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
