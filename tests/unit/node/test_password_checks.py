"""Slow hashes computed in threads, on either event loop."""

import asyncio

import pytest

from tests.unit.node.shell import LOOPS, run_on
from warren.broker.access.passwords import SCRYPT, hash_password
from warren.broker.model.effects import VerifyPassword
from warren.broker.model.events import Event, PasswordVerified
from warren.node.password_checks import PasswordChecks

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)
STORED = hash_password(SCRYPT, "right", bytes(16))


def test_each_order_is_answered_with_its_ticket(loop_name: str) -> None:
    async def conversation() -> None:
        loop = asyncio.get_running_loop()
        answers: dict[int, bool] = {}
        all_came = loop.create_future()

        def add(event: Event) -> None:
            assert isinstance(event, PasswordVerified)
            answers[event.ticket] = event.good
            if len(answers) == 4:
                all_came.set_result(None)

        checks = PasswordChecks(loop, add)
        verify = checks.orders()[VerifyPassword]
        for ticket, password in enumerate(["right", "wrong", "", "right"]):
            verify(VerifyPassword(ticket, SCRYPT, STORED, password))
        assert answers == {}
        await asyncio.wait_for(all_came, 60)
        assert answers == {0: True, 1: False, 2: False, 3: True}
        checks.close()

    run_on(loop_name, conversation())


def test_a_hash_that_cannot_be_computed_matches_no_password(loop_name: str) -> None:
    async def conversation() -> None:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Event] = loop.create_future()
        checks = PasswordChecks(loop, answered.set_result)
        checks.orders()[VerifyPassword](VerifyPassword(1, SCRYPT, STORED, "\ud800"))
        event = await asyncio.wait_for(answered, 60)
        assert isinstance(event, PasswordVerified)
        assert not event.good
        checks.close()

    run_on(loop_name, conversation())
