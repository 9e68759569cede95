"""Without a terminal, progress is a plain line now and then."""

import pytest

from warren.pipeline import progress
from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.progress import JobProgress


def test_lines_say_how_much_is_done_of_how_much(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with JobProgress("load", 10) as bar:
        bar.advance(4)
        bar.show("confirm")
        bar.advance(6)
    with JobProgress("read") as bar:
        bar.advance(3)
    assert capsys.readouterr().err == "load: 4 of 10\nconfirm: 10 of 10\nread: 3\n"


def test_lines_are_seconds_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with JobProgress("load", 10) as bar:
        bar.advance(4)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "[A_B] one\nTraceback:\n  File\nwarren.pipeline.errors.PipelineError: it is late\nSQLSTATE: 38000",
            "it is late",
        ),
        ("org.apache.spark.api.python.PythonException: warren.spark.x.StreamError: gone", "gone"),
        ("Traceback:\nValueError: wrong number SQLSTATE: 38000", "wrong number"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "Path does not exist: file:/x."),
        (
            "[STREAM_FAILED] Query [id = 8-4, runId = 9-9] terminated with exception: no memory SQLSTATE: XXKST",
            "no memory",
        ),
        ("plain\nand more", "plain"),
        ("", "RuntimeError"),
    ],
)
def test_the_sentence_is_found_in_the_error_of_spark(text: str, found: str) -> None:
    assert sentence(RuntimeError(text)) == found


def test_our_own_errors_are_sentences_already() -> None:
    assert sentence(PipelineError("ValueError: as it stands")) == "ValueError: as it stands"
