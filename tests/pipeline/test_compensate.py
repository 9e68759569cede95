"""From the findings of a reconciliation to messages on a real node, and attempts that count after any kill."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.queue_contents import taken
from warren.client import blocking
from warren.pipeline import publication, tables
from warren.pipeline.compensate import attempts, job
from warren.pipeline.compensate.attempts import exhausted_keys, plan_messages, wanted_actions
from warren.pipeline.compensate.settings import CompensateSettings, chosen_actions
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile.job import KIND, VERSION

LEDGER = "struct<rows: bigint, amount: decimal(12, 2), at: timestamp, record: string>"
RESULT = (
    "key string, status string, missing array<string>, differing array<string>, duplicated array<string>, "
    f"late array<string>, orders {LEDGER}, bank {LEDGER}, shop {LEDGER}"
)
LEDGERS = ("orders", "bank", "shop")
DAY = "2026-11-15"


def row(
    key: str | None, status: str, differing: list[str] | None = None, **ledgers: tuple[int, str]
) -> tuple[Any, ...]:
    """A key as reconcile has it: of each ledger how many rows, and their amount."""
    found = [None if name not in ledgers else as_ledger(key, *ledgers[name]) for name in LEDGERS]
    missing = [name for name in LEDGERS if name not in ledgers]
    duplicated = [name for name, (rows, _) in ledgers.items() if rows > 1]
    return (key, status, missing, differing or [], duplicated, [], *found)


def as_ledger(key: str | None, rows: int, amount: str) -> tuple[Any, ...]:
    return rows, Decimal(amount), None, record(key, amount)


def record(key: str | None, amount: str) -> str:
    return f'{{"order_id":"{key}","amount":{amount},"note":null}}'


ONCE = (1, "10.00")
FOUND = [
    row("lost", "missing", orders=ONCE, shop=ONCE),
    row("nowhere", "missing", orders=ONCE),
    row("strange", "unexpected", bank=(2, "7.00")),
    row("wrong", "differs", ["bank.amount"], orders=ONCE, bank=(1, "11.00"), shop=ONCE),
    row("twice", "duplicated", orders=ONCE, bank=(3, "10.00"), shop=ONCE),
    row("as often", "duplicated", orders=(2, "10.00"), bank=(2, "10.00"), shop=ONCE),
    row("mad", "contradicting", orders=ONCE, bank=(2, "10.00"), shop=ONCE),
    row(None, "unreadable", orders=ONCE, bank=ONCE, shop=ONCE),
    row("slow", "late", orders=ONCE, bank=ONCE, shop=ONCE),
    row("fine", "balanced", orders=ONCE, bank=ONCE, shop=ONCE),
]
ACTIONS = {
    ("lost", "bank"): "resend",
    ("nowhere", "bank"): "resend",
    ("nowhere", "shop"): "resend",
    ("strange", "bank"): "reverse",
    ("wrong", "bank"): "correct",
    ("twice", "bank"): "reverse",
}


def frame(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, RESULT)


def found_actions(result: DataFrame, *said: str) -> dict[tuple[str, str], str]:
    found = wanted_actions(result, LEDGERS, "orders", chosen_actions(said)).collect()
    assert len({(each["key"], each["ledger"]) for each in found}) == len(found)
    return {(each["key"], each["ledger"]): each["action"] for each in found}


def test_each_status_leads_to_its_action_in_the_ledgers_that_are_concerned(spark: SparkSession) -> None:
    assert found_actions(frame(spark, FOUND)) == ACTIONS


def test_other_actions_are_chosen_by_status(spark: SparkSession) -> None:
    said = ("missing=none", "unexpected=none", "differs=reverse", "duplicated=correct", "contradicting=correct")
    assert found_actions(frame(spark, FOUND), *said) == {
        ("wrong", "bank"): "reverse",
        ("twice", "bank"): "correct",
        ("mad", "bank"): "correct",
    }


def test_nothing_is_booked_that_the_authority_has_not(spark: SparkSession) -> None:
    result = frame(spark, [row("mad", "contradicting", bank=(2, "10.00"))])
    assert found_actions(result, "contradicting=correct") == {}
    assert found_actions(result, "contradicting=reverse") == {("mad", "bank"): "reverse"}


def test_bodies_have_the_ledgers_records_as_they_were_written(spark: SparkSession) -> None:
    found = wanted_actions(frame(spark, FOUND), LEDGERS, "orders", chosen_actions(()))
    empty = spark.createDataFrame([], attempts.SCHEMA)
    rows = plan_messages(found, empty, 3, DAY, "fix.{ledger}.{action}").collect()
    bodies = {(each["key"], each["ledger"]): each["body"] for each in rows}
    assert bodies["lost", "bank"] == record("lost", "10.00")
    assert bodies["wrong", "bank"] == (
        '{"action":"correct","key":"wrong","ledger":"bank","status":"differs","rows":1,'
        f'"wrong":{record("wrong", "11.00")},"right":{record("wrong", "10.00")}}}'
    )
    assert json.loads(bodies["strange", "bank"])["rows"] == 2
    assert json.loads(bodies["strange", "bank"])["right"] is None
    assert json.loads(bodies["twice", "bank"])["rows"] == 2
    assert {each["routing_key"] for each in rows} == {"fix.bank.resend", "fix.shop.resend", "fix.bank.reverse"} | {
        "fix.bank.correct"
    }
    assert len({each["message_id"] for each in rows}) == len(rows)
    assert {each["message_id"].partition("-")[2] for each in rows} == {"1"}


def test_a_key_is_tried_so_often_and_no_more(spark: SparkSession) -> None:
    found = wanted_actions(frame(spark, FOUND), LEDGERS, "orders", chosen_actions(()))
    before = [
        (key, "bank", "missing", "resend", DAY, attempt, f"{key}{attempt}", "k", None, attempt, 0, attempt == 1)
        for key, tried in (("lost", 2), ("wrong", 3))
        for attempt in range(1, tried + 1)
    ]
    kept = spark.createDataFrame(before, attempts.SCHEMA)
    rows = plan_messages(found, kept, 3, DAY, "k").collect()
    assert {each["key"]: each["attempt"] for each in rows} == {"lost": 3, "nowhere": 1, "strange": 1, "twice": 1}
    assert [tuple(each) for each in exhausted_keys(found, kept, 3).collect()] == [("wrong", 3)]


@pytest.fixture
def out(spark: SparkSession, tmp_path: Path) -> Folder:
    folder = Folder(str(tmp_path / "found"))
    write(frame(spark, FOUND), folder)
    return folder


def write(rows: DataFrame, folder: Folder, day: str | None = DAY) -> None:
    facts = {"ledgers": list(LEDGERS), "authority": "orders", "day": day}
    tables.replace(rows, folder, KIND, VERSION, facts)


def settings(out: Folder, url: str, queue: str, **changed: Any) -> CompensateSettings:
    state = Folder(out.uri.replace("/found", "/state"))
    return CompensateSettings(out, state, url, **({"routing_key": queue, "yes": True} | changed))


def sent(broker: blocking.Channel, queue: str) -> list[tuple[str, str, str, str]]:
    names = ("key", "ledger", "action", "attempt")
    return sorted(tuple(str(each.headers[name]) for name in names) for each in taken(broker, queue))  # type: ignore[misc]


def first_attempts() -> list[tuple[str, str, str, str]]:
    return sorted((key, ledger, action, "1") for (key, ledger), action in ACTIONS.items())


def test_a_dry_run_shows_and_sends_nothing_and_the_run_behind_it_needs_no_yes(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder
) -> None:
    with pytest.raises(PipelineError, match="these messages were not shown before"):
        job.run(spark, settings(out, url, queue, yes=False))
    shown = job.run(spark, settings(out, url, queue, yes=False, dry_run=True))
    assert shown.counts == {
        ("differs", "correct"): 1,
        ("duplicated", "reverse"): 1,
        ("missing", "resend"): 3,
        ("unexpected", "reverse"): 1,
    }
    assert [each["key"] for each in shown.sample] == ["lost", "nowhere", "nowhere", "strange", "twice", "wrong"]
    assert taken(broker, queue) == []
    with pytest.raises(PipelineError, match="were not shown before"):
        job.run(spark, settings(out, url, queue, yes=False, actions=("missing=none",)))
    assert job.run(spark, settings(out, url, queue, yes=False)).counts == shown.counts
    assert sent(broker, queue) == first_attempts()


def test_a_result_is_compensated_once_even_if_it_is_written_anew(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder
) -> None:
    assert job.run(spark, settings(out, url, queue)).messages == 6
    write(frame(spark, FOUND[::-1]), out)
    again = job.run(spark, settings(out, url, queue))
    assert (again.already, again.messages) == (True, 0)
    assert sent(broker, queue) == first_attempts()


def test_on_other_days_and_when_asked_for_a_key_is_tried_again_up_to_its_limit(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder
) -> None:
    write(frame(spark, FOUND[:1]), out)
    runs: list[dict[str, Any]] = [{}, {"day": "2026-11-16"}, {"day": "2026-11-16", "again": True}]
    for changed in runs:
        job.run(spark, settings(out, url, queue, **changed))
    last = job.run(spark, settings(out, url, queue, day="2026-11-18"))
    assert (last.messages, last.exhausted) == (0, 1)
    messages = taken(broker, queue)
    assert [str(each.headers["attempt"]) for each in messages] == ["1", "2", "3"]
    assert len({each.properties.message_id for each in messages}) == 3
    # a further attempt has the same compensation_id; the correction of another day has another one
    first, second, third = (str(each.headers["compensation_id"]) for each in messages)
    assert (second == third, first == second) == (True, False)


def test_a_state_that_has_lost_its_attempts_sends_nothing(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder, tmp_path: Path
) -> None:
    table = tmp_path / "state" / "attempts" / "table.json"
    write(frame(spark, FOUND[:1]), out)
    job.run(spark, settings(out, url, queue))
    older = table.read_text()
    job.run(spark, settings(out, url, queue, again=True))
    newest = table.read_text()
    assert len(taken(broker, queue)) == 2
    table.unlink()
    for dry_run in (True, False):
        with pytest.raises(PipelineError, match=r"/attempts/table\.json is gone, and what it does not know would be"):
            job.run(spark, settings(out, url, queue, again=True, dry_run=dry_run))
    data = json.loads(newest)["data"]
    table.write_text(json.dumps(json.loads(older) | {"data": data}))
    with pytest.raises(PipelineError, match=r"/attempts/table\.json knows 1 of 2 runs"):
        job.run(spark, settings(out, url, queue, again=True))
    assert taken(broker, queue) == []
    table.write_text(newest)
    job.run(spark, settings(out, url, queue, again=True))
    assert sent(broker, queue) == [("lost", "bank", "resend", "3")]


@pytest.mark.usefixtures("small_parts")
def test_a_state_that_has_lost_the_attempts_of_a_run_that_was_killed_sends_nothing(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Some of its messages are published, and no part is recorded as published."""
    put = Folder.put_json

    def killing(folder: Folder, file: str, value: Any) -> None:
        if file == publication.DONE:
            raise Killed
        put(folder, file, value)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "put_json", killing)
        with pytest.raises(Killed):
            job.run(spark, settings(out, url, queue))
    before = len(taken(broker, queue))
    (tmp_path / "state" / "attempts" / "table.json").unlink()
    with pytest.raises(PipelineError, match="is gone"):
        job.run(spark, settings(out, url, queue))
    assert (before > 0, taken(broker, queue)) == (True, [])


class Killed(BaseException):
    """Simulates the end of the process at the place where it is raised."""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "PART_MESSAGES", 2)
    monkeypatch.setattr(publication, "PARTS_AT_ONCE", 1)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("name", "which", "when"),
    [("table.json", 0, "behind"), ("done.json", 1, "before"), ("table.json", 1, "before")],
    ids=["intent", "published", "confirmed"],
)
def test_killed_at_any_point_and_run_again_nothing_is_sent_twice(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder, name: str, which: int, when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each thing that counts is one small file: the intent, a published part, the confirm."""
    put, puts = Folder.put_json, iter(range(100))

    def killing(folder: Folder, file: str, value: Any) -> None:
        dies = file == name and next(puts) == which
        if dies and when == "before":
            raise Killed
        put(folder, file, value)
        if dies:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "put_json", killing)
        with pytest.raises(Killed):
            job.run(spark, settings(out, url, queue, max_attempts=1))
    job.run(spark, settings(out, url, queue, max_attempts=1))
    assert job.run(spark, settings(out, url, queue, max_attempts=1)).already
    assert sent(broker, queue) == first_attempts()
    kept = attempts.read(spark, settings(out, url, queue).state)
    assert kept.open is None
    assert sorted((each["key"], each["attempt"], each["confirmed"]) for each in kept.rows.collect()) == sorted(
        (key, 1, True) for key, _ in ACTIONS
    )


@pytest.mark.usefixtures("small_parts")
def test_a_run_that_was_killed_is_finished_before_another_result_is_acted_on(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killing(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(job, "publish", killing)
        with pytest.raises(Killed):
            job.run(spark, settings(out, url, queue))
    write(frame(spark, [*FOUND, row("more", "missing", orders=ONCE, shop=ONCE)]), out)
    assert job.run(spark, settings(out, url, queue, dry_run=True)).messages == 6
    with pytest.raises(PipelineError, match="6 messages of an earlier run that had not ended are sent; reconcile"):
        job.run(spark, settings(out, url, queue))
    assert sent(broker, queue) == first_attempts()


def test_a_failure_to_send_is_one_sentence_and_opens_no_run(
    spark: SparkSession, url: str, queue: str, out: Folder
) -> None:
    with pytest.raises(PipelineError, match=r"^cannot connect to 127\.0\.0\.1:1: connection refused"):
        job.run(spark, settings(out, "amqp://127.0.0.1:1", queue, timeout_s=0.1))
    assert attempts.read(spark, settings(out, url, queue).state).open is None
    for nowhere, missing in (
        ({"routing_key": "no-{ledger}"}, "queue 'no-bank'"),
        ({"exchange": "no"}, "exchange 'no'"),
    ):
        with pytest.raises(PipelineError, match=f"^messages would not arrive: .*no {missing}"):
            job.run(spark, settings(out, url, queue, **nowhere))
        assert attempts.read(spark, settings(out, url, queue).state).open is None
    write(frame(spark, FOUND), out, None)
    with pytest.raises(PipelineError, match="has no day: --day says"):
        job.run(spark, settings(out, url, queue))
    with pytest.raises(PipelineError, match="has no complete table of reconciled keys"):
        job.run(spark, settings(out.child("nothing"), url, queue))


def test_a_run_that_cannot_end_is_given_up_and_counts_as_an_attempt(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, out: Folder
) -> None:
    """The broker does not report in advance that nothing is bound to an exchange."""
    write(frame(spark, FOUND[:1]), out)
    nowhere = {"exchange": "amq.direct", "routing_key": "unbound"}
    for _ in range(2):
        with pytest.raises(PipelineError, match=r"no queue takes messages of exchange 'amq\.direct' with key"):
            job.run(spark, settings(out, url, queue, **nowhere))
        nowhere = {}
    shown = job.run(spark, settings(out, url, queue, abandon=True, dry_run=True))
    assert [(each["key"], each["attempt"], each["routing_key"]) for each in shown.sample] == [("lost", 2, queue)]
    assert attempts.read(spark, settings(out, url, queue).state).open is not None
    assert job.run(spark, settings(out, url, queue, abandon=True)).messages == 1
    assert sent(broker, queue) == [("lost", "bank", "resend", "2")]
    kept = attempts.read(spark, settings(out, url, queue).state)
    assert kept.open is None
    assert sorted((each["attempt"], each["confirmed"], each["body"]) for each in kept.rows.collect()) == [
        (1, False, None),
        (2, True, None),
    ]
