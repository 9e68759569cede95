"""Computes slow password hashes beside the event loop.

The broker asks for few at a time (`broker.access.logins`), which bounds the queue. A computation under way
when the node ends is abandoned.

Not here: the hashes (`broker.access.passwords`), which logins need them.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warren.broker.access.passwords import is_password
from warren.broker.model.effects import Effect, VerifyPassword
from warren.broker.model.events import Event, PasswordVerified

THREADS = 2


class PasswordChecks:
    """Carries out `VerifyPassword`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, add: Callable[[Event], None]) -> None:
        self._loop = loop
        self._add = add
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {VerifyPassword: self._verify}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _verify(self, effect: VerifyPassword) -> None:
        future = self._loop.run_in_executor(
            self._threads, is_password, effect.password, effect.algorithm, effect.password_hash
        )
        future.add_done_callback(lambda done: self._verified(effect.ticket, done))

    def _verified(self, ticket: int, done: "asyncio.Future[bool]") -> None:
        if not done.cancelled():
            # a hash that cannot be computed matches no password
            self._add(PasswordVerified(ticket, done.exception() is None and done.result()))
