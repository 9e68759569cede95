"""Which statuses lead to which actions."""

from pathlib import Path
from typing import Any

import pytest

from warren.pipeline.compensate.settings import ALLOWED, CompensateSettings, chosen_actions
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile.comparison import IN_ORDER, PRECEDENCE


def test_every_status_that_is_a_difference_has_an_action() -> None:
    assert set(chosen_actions(())) == set(PRECEDENCE) - IN_ORDER == set(ALLOWED)


def test_by_default_contradicting_and_unreadable_keys_are_left_alone() -> None:
    chosen = chosen_actions(())
    assert {status for status, action in chosen.items() if action == "none"} == {"contradicting", "unreadable"}


def test_an_action_may_be_another() -> None:
    assert chosen_actions(["duplicated=correct", "missing=none"]) == chosen_actions(()) | {
        "duplicated": "correct",
        "missing": "none",
    }


@pytest.mark.parametrize("said", ["lost=resend", "missing", "missing=reverse", "unreadable=resend", "balanced=none"])
def test_an_action_that_cannot_be_done_is_refused(said: str) -> None:
    with pytest.raises(PipelineError):
        chosen_actions([said])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"routing_key": ""}, "nothing says where messages go"),
        ({"max_attempts": 0}, "tried once at least"),
        ({"day": "15.11.2026"}, "a day is YEAR-MONTH-DAY"),
        ({"url": "http://localhost"}, "the URL of the broker"),
        ({"actions": ("missing=reverse",)}, "what is missing allows resend or none"),
        ({"timeout_s": 0.0}, "the timeout is a number of seconds"),
        ({"outbox": "sqlite:///bank.db"}, "goes to a broker or through an outbox"),
        ({"url": ""}, "goes to a broker or through an outbox"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    folder = Folder(str(tmp_path))
    with pytest.raises(PipelineError, match=sentence):
        CompensateSettings(folder, folder, **({"url": "amqp://localhost", "routing_key": "c"} | given))


def test_through_an_outbox_rows_know_where_they_go(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    settings = CompensateSettings(folder, folder, outbox="postgresql://bank:secret@localhost/bank")
    assert settings.shown("result") != CompensateSettings(folder, folder, "amqp://localhost", "x").shown("result")
    assert "secret" not in f"{settings} {settings.shown('result')}"
