"""Errors of an import that was refused, or whose outcome is unknown."""

import asyncio

import pytest

from tests.support.core_driver import Core
from warren.admin.command_queue import CommandQueue
from warren.admin.definition_import import DefinitionImporter, DefinitionsFile
from warren.broker.model.effects import CompleteCommand
from warren.broker.model.events import CommandReceived, Event
from warren.errors import CommandRefused

FILE = DefinitionsFile("all.json", b'{"vhosts": [{"name": "one"},\n{"name": "two"}]}')
NOT_SEEN = "the cluster's metadata store agreed, but this node has not heard of the change in time"


def refusal_of(kind: str, reason: str, at: int = 0) -> CommandRefused:
    """The error of an import that the core answers so."""

    async def take() -> None:
        def answer(event: Event) -> None:
            assert isinstance(event, CommandReceived)
            command_queue.answered(CompleteCommand(event.ticket, None, kind, reason, at))

        command_queue = CommandQueue(asyncio.get_running_loop(), answer)
        await DefinitionImporter(Core().broker, command_queue).take([FILE])

    with pytest.raises(CommandRefused) as refused:
        asyncio.run(take())
    return refused.value


def test_a_fault_is_reported_with_its_place_and_that_nothing_was_imported() -> None:
    refusal = refusal_of("bad_request", "no such thing", at=1)
    assert (refusal.kind, refusal.reason) == (
        "bad_request",
        "all.json line 2, vhosts 'two': no such thing; nothing was imported",
    )


@pytest.mark.parametrize("reason", [NOT_SEEN, f"{NOT_SEEN}; 2 of 2 changes were made before that, and stay"])
def test_a_commit_that_timed_out_is_not_reported_as_missing_nor_as_the_fault_of_a_line(reason: str) -> None:
    refusal = refusal_of("unavailable", reason)
    assert refusal.kind == "unavailable"
    assert refusal.reason.startswith(f"{reason}; all or some of the definitions may be there all the same")


def test_changes_made_before_an_interruption_are_not_reported_as_missing() -> None:
    refusal = refusal_of("bad_request", "no such thing; 60 of 90 changes were made before that, and stay")
    assert refusal.reason.endswith("no such thing; 60 of 90 changes were made before that, and stay")
