"""Questions between nodes survive the way, and what is none is refused."""

import asyncio
from typing import cast

import pytest

from warren.admin.cluster.answering import PeerAnswers
from warren.admin.cluster.question import ROWS, Part, Question, Told, decode_question, decode_told
from warren.admin.http.application import Application
from warren.admin.http.visitor import Visitor
from warren.admin.station import Station


def test_a_question_comes_as_it_went() -> None:
    part = Part(ROWS, "messages", (("/", "plain"), ("/", "not \udcff UTF-8")))
    question = Question(
        "GET", b"/api/queues/%2F", b"columns=name", "gr\xfcn", Visitor("ann", ["monitoring"], ["/"]), part
    )
    assert decode_question(question.encode()) == question


def test_an_answer_comes_as_it_went() -> None:
    told = Told(404, b'{"reason":"not \\udcff UTF-8"}')
    assert decode_told(told.encode()) == told
    assert told.document == {"reason": "not \udcff UTF-8"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"visitor": 1}', b'"text"', b"\xff"])
def test_what_is_no_question_is_told_so(data: bytes) -> None:
    # it never gets as far as the application
    answers = PeerAnswers(cast(Application, None), cast(Station, None))
    assert decode_told(asyncio.run(answers.answer(data))) == Told(400, b"")
