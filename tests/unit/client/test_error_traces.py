"""Errors in logs: their tracebacks, without values of customers."""

import pytest

from warren.client.errors import error_summary, error_trace


def raised(failure: BaseException) -> BaseException:
    with pytest.raises(type(failure)) as caught:
        raise failure
    return caught.value


def test_a_sentence_is_the_type_and_the_first_line() -> None:
    assert error_summary(ValueError("no stock\nDETAIL: Key (name)=(Ada)")) == "ValueError: no stock"


def test_the_causes_of_an_error_are_logged_without_values() -> None:
    def fail() -> None:
        try:
            raise KeyError("Ada\nLovelace")
        except KeyError as missing:
            try:
                raise OSError("first\nsecond line") from missing
            except OSError:
                raise ValueError("third\nfourth line")  # noqa: B904  # so that it is a context

    with pytest.raises(ValueError, match="third") as failed:
        fail()
    told = error_trace(failed.value)
    sentences = [line for line in told.splitlines() if line.startswith(("KeyError", "OSError", "ValueError"))]
    assert sentences == [r"KeyError: 'Ada\nLovelace'", "OSError: first", "ValueError: third"]
    assert told.count("Traceback (most recent call last):") == 3
    assert told.count("direct cause") == 1
    assert "fourth" not in told.replace('raise ValueError("third\\nfourth line")', "")


def test_errors_that_are_each_others_cause_are_logged_once() -> None:
    one, other = raised(ValueError("one")), raised(OSError("other"))
    one.__cause__, other.__cause__ = other, one
    assert error_trace(one).count("Traceback") == 2


def test_all_errors_of_a_group_are_logged_with_their_first_lines() -> None:
    group = raised(ExceptionGroup("two of them", [ValueError("one\nsecret"), OSError("other\nsecret")]))
    told = error_trace(group)
    assert "ExceptionGroup: two of them (2 sub-exceptions)" in told
    assert "ValueError: one\n" in told
    assert told.endswith("OSError: other")
    assert "\nsecret" not in told
