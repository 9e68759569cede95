"""Being the active one among many, for as long as the lease is ours and nobody says stop.

    stand by    until the lease is free
    serve       while a task renews the lease
    let go      at the end, and when the database made trouble

A lease that is lost shows at the next renewal, or at the next transaction under it; whoever notices says `lose`. A
database that is gone for a while is logged, and tried again.

Not here: the work (`outbox.relay`, `receipts.chaser`), the lease (`tables.claiming`).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from warren.client.tables.claiming import Claim
from warren.client.telling import sentence

DATABASE_TROUBLE = (DBAPIError, PoolTimeout)


class Leading:
    """`leads` says whether this is the active one; `job` begins the names of what is logged.

    `woken` is set when the lease is lost, for whoever waits for work.
    """

    def __init__(self, claim: Claim, log: logging.Logger, job: str, woken: asyncio.Event) -> None:
        self.leads = False
        self._claim = claim
        self._log = log
        self._job = job
        self._woken = woken

    async def run(self, serve: Callable[[], Awaitable[None]], stopped: asyncio.Event, pause_s: float) -> None:
        """Serve whenever this is the active one, until it is stopped; `pause_s` after trouble with the database."""
        while not stopped.is_set():
            try:
                async with self.lead():
                    if self.leads:
                        await serve()
                await wait(stopped, self._claim.lease_s / 3)
            except DATABASE_TROUBLE as trouble:
                self._log.warning(f"{self._job}.database_failed", extra={"reason": sentence(trouble)})
                await wait(stopped, pause_s)

    @contextlib.asynccontextmanager
    async def lead(self) -> AsyncIterator[None]:
        """Take the lease if it is free, keep it, and let go of it at the end."""
        self.leads = await asyncio.to_thread(self._claim.take)
        if not self.leads:
            yield
            return
        self._log.info(f"{self._job}.leads")
        renewing = asyncio.create_task(self._keep_renewing())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            self.leads = False
            with contextlib.suppress(*DATABASE_TROUBLE):
                await asyncio.to_thread(self._claim.release)

    def lose(self) -> None:
        """Somebody else has the lease."""
        if self.leads:
            self._log.warning(f"{self._job}.lease_lost")
        self.leads = False
        self._woken.set()

    async def _keep_renewing(self) -> None:
        while self.leads:
            await asyncio.sleep(self._claim.lease_s / 3)
            try:
                if not await asyncio.to_thread(self._claim.renew):
                    self.lose()
            except DATABASE_TROUBLE as trouble:
                self._log.warning(f"{self._job}.renewal_failed", extra={"reason": sentence(trouble)})


async def wait(event: asyncio.Event, most_s: float) -> None:
    """For the event, or for so long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()
