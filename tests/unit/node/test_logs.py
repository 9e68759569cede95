"""The lines of the log."""

import io
import json
import re

import pytest

from warren.node.logs import CATEGORIES, JSON, LEVELS, Log, LogLevels


def lines(level: str, *events: tuple[str, str, dict[str, object]]) -> list[str]:
    stream = io.StringIO()
    log = Log(LogLevels({"default": level}), stream=stream)
    for event in events:
        log.write(*event)
    return stream.getvalue().splitlines()


def test_an_event_is_one_line_of_keys_and_values() -> None:
    fields = {"peer": "127.0.0.1:5000", "channels": 3, "tls": False, "user": "a b", "reason": ""}
    [line] = lines("info", ("info", "connection.opened", fields))
    time, rest = line.split(" ", 1)
    assert re.fullmatch(r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", time)
    assert rest == ('level=info event=connection.opened peer=127.0.0.1:5000 channels=3 tls=false user="a b" reason=""')


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[31mred", 'a "quote"', "a=b", "\udcff", "å", "\u2028"])
def test_a_clients_text_can_neither_break_a_line_nor_drive_a_terminal(text: str) -> None:
    [line] = lines("info", ("info", "user.refused", {"user": text}))
    value = line.partition("user=")[2]
    assert value.isascii()
    assert value.isprintable()
    assert value[0] == value[-1] == '"'


def test_events_below_the_level_are_not_written() -> None:
    events: list[tuple[str, str, dict[str, object]]] = [
        (level, f"a.{level}", {}) for level in ("debug", "info", "warning", "error", "critical")
    ]
    assert [len(lines(level, *events)) for level in ("debug", "info", "notice", "warning", "error", "critical")] == [
        5,
        4,
        4,
        3,
        2,
        1,
    ]
    assert lines("none", *events) == []


def test_a_traceback_follows_its_line() -> None:
    stream = io.StringIO()
    try:
        raise ValueError("broken")
    except ValueError:
        Log(LogLevels({"default": "info"}), stream=stream).critical("core.failed", exc_info=True)
    written = stream.getvalue().splitlines()
    assert written[0].endswith("level=critical event=core.failed")
    assert written[1].startswith("Traceback")
    assert written[-1] == "ValueError: broken"


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "none"])
def test_every_level_of_rabbitmq_can_be_written(level: str) -> None:
    assert len(lines("debug", (level, "a.b", {}))) == 1


@pytest.mark.parametrize(
    ("chosen", "written"),
    [
        ({}, ["connection.opened", "queue.stopped", "node.started"]),
        ({"connection": "warning"}, ["queue.stopped", "node.started"]),
        ({"default": "none", "queue": "info"}, ["queue.stopped"]),
        ({"upgrade": "none"}, ["connection.opened", "queue.stopped", "node.started"]),
    ],
)
def test_each_category_has_a_level_of_its_own(chosen: dict[str, str], written: list[str]) -> None:
    stream = io.StringIO()
    log = Log(LogLevels(chosen), stream=stream)
    for event in ("connection.opened", "queue.stopped", "node.started"):
        log.info(event)
    assert re.findall(r"event=(\S+)", stream.getvalue()) == written


def test_levels_change_from_one_line_to_the_next() -> None:
    stream = io.StringIO()
    log = Log(LogLevels({}), stream=stream)
    for step, change in enumerate(
        ({}, {"channel": "error"}, {"default": "debug"}, {"default": "none", "channel": "info"})
    ):
        log.levels.change(change)
        log.info("channel.failed", step=step)
        log.info("node.started", step=step)
    assert re.findall(r"event=(\w+)\S* step=(\d)", stream.getvalue()) == [
        ("channel", "0"),
        ("node", "0"),
        ("node", "1"),
        ("channel", "2"),
        ("node", "2"),
        ("channel", "3"),
    ]
    assert log.levels.levels() == dict.fromkeys(CATEGORIES, "none") | {"channel": "info"}


def test_a_line_can_be_a_json_object() -> None:
    stream = io.StringIO()
    log = Log(LogLevels({}), JSON, stream)
    log.info("connection.opened", user="a\nb\udcff", channels=3, tls=False, address=("a", 1))
    try:
        raise ValueError("broken")
    except ValueError:
        log.critical("core.failed", exc_info=True)
    opened, failed = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", opened.pop("time"))
    assert list(opened.items()) == [
        ("level", "info"),
        ("event", "connection.opened"),
        ("user", "a\nb\udcff"),
        ("channels", 3),
        ("tls", False),
        ("address", "('a', 1)"),
    ]
    assert failed["event"] == "core.failed"
    assert failed["exception"].endswith("ValueError: broken")
