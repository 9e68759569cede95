"""Settings as people write them: the meaning of a file, and one sentence for each mistake."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from warren.pipeline.errors import PipelineError
from warren.pipeline.reconcile.describing import described, two_paths

WHOLE = """
key = ["order_id"]
amounts = ["amount"]
compared = ["currency"]
authority = "orders"
day = 2026-11-15
zone = "Europe/Berlin"
grace = "6h"
tolerance = 0.01
relative = "0.001"

[ledgers.payments]
source = "csv"
path = "payments.csv"
options = { sep = ";", multiLine = true }
time = "booked"
zone = "America/New_York"
where = "kind = 'payment'"
columns = { order_id = "reference", amount = "cents * 0.01" }
may_be_empty = true

[ledgers.orders]
source = "jdbc"
url = "jdbc:postgresql://localhost/shop"
table = "orders"
user = "reader"
password_env = "ORDERS_PASSWORD"
time = "placed_at"
"""


def test_a_file_says_all_there_is_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "secret")
    settings = described(_file(tmp_path, WHOLE))
    assert settings.names == ("payments", "orders")
    assert settings.authority_index == 1
    assert (settings.key, settings.values) == (("order_id",), ("amount", "currency"))
    assert (settings.day, settings.zone, settings.grace) == (date(2026, 11, 15), "Europe/Berlin", timedelta(hours=6))
    assert (settings.tolerance, settings.relative) == (Decimal("0.01"), Decimal("0.001"))
    payments, orders = settings.ledgers
    assert payments.source.path == str(tmp_path / "payments.csv")
    assert payments.source.options == {"sep": ";", "multiLine": "true"}
    assert (payments.time, payments.zone, payments.where) == ("booked", "America/New_York", "kind = 'payment'")
    assert payments.may_be_empty
    assert [payments.expression(name) for name in ("order_id", "amount", "currency")] == [
        "reference",
        "cents * 0.01",
        "currency",
    ]
    assert (orders.source.user, orders.source.password, orders.zone) == ("reader", "secret", "UTC")
    assert "secret" not in repr(settings)


def test_a_day_that_is_given_counts_more_than_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "")
    assert described(_file(tmp_path, WHOLE), day="2026-11-14").day == date(2026, 11, 14)


def test_of_two_files_the_left_one_is_the_authority() -> None:
    settings = two_paths("a.CSV", "json:b", {"key": ["id"], "amounts": ["amount"], "time": "at", "zone": "Asia/Tokyo"})
    assert (settings.names, settings.authority) == (("left", "right"), "left")
    assert [ledger.source.kind for ledger in settings.ledgers] == ["csv", "json"]
    assert [Path(ledger.source.path).name for ledger in settings.ledgers] == ["a.CSV", "b"]
    assert {ledger.zone for ledger in settings.ledgers} == {settings.zone} == {"Asia/Tokyo"}


@pytest.mark.parametrize(
    ("was", "becomes", "sentence"),
    [
        ("key = [", "kye = [", r"it says 'kye', which means nothing here; did you mean key\?"),
        ('key = ["order_id"]', "", "there must be a key column"),
        ('key = ["order_id"]', "key = 1", "key must be a name or a list of names, not 1"),
        ('authority = "orders"', 'authority = "bank"', "authority 'bank' is no ledger; they are payments, orders"),
        ('zone = "Europe/Berlin"', 'zone = "Europe/Bern"', "the business day is in zone 'Europe/Bern'"),
        ('zone = "America/New_York"', 'zone = "New York"', "ledger payments is in zone 'New York'"),
        ("tolerance = 0.01", "tolerance = -0.01", "the tolerance is -0.01; it must be a number and not negative"),
        ("tolerance = 0.01", "tolerance = nan", "the tolerance is NaN; it must be a number"),
        ('relative = "0.001"', 'relative = "1%"', "relative must be a number, not '1%'"),
        ('relative = "0.001"', "relative = 2", "at most 1"),
        ('relative = "0.001"', "relative = 1e-10", "more than 9 digits"),
        ("day = 2026-11-15", "", "there is a grace, but no day"),
        ("day = 2026-11-15", 'day = "15.11."', "a day is written like"),
        ('grace = "6h"', 'grace = "6"', "a grace is a number with"),
        ('source = "csv"', 'source = "excel"', "ledger payments: source is 'excel', and must be one of parquet, csv"),
        ('path = "payments.csv"', "", "ledger payments: source csv needs path"),
        ('time = "booked"', "time = 7", "ledger payments: time must be text, not 7"),
        ("may_be_empty = true", 'may_be_empty = "yes"', "may_be_empty must be true or false"),
        ('order_id = "reference"', 'order = "reference"', "ledger payments says what order is, but only order_id"),
        ("columns = {", "colums = {", r"ledger payments: it says 'colums'.*did you mean columns\?"),
        ('amounts = ["amount"]', 'amounts = ["Amount"]', "column 'Amount' must be named in small letters"),
        ('compared = ["currency"]', 'compared = ["status"]', "the result has a column of that name"),
        ('compared = ["currency"]', 'compared = ["amount"]', "column amount is named twice"),
        ("[ledgers.orders]", "[ledgers.late]", "the result has a column of that name"),
        ('password_env = "ORDERS_PASSWORD"', 'password_env = "NOBODYS"', "in the environment as NOBODYS, and is not"),
        ("[ledgers.orders]", "[ledgers.payments]", "is not TOML"),
    ],
)
def test_every_mistake_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str, becomes: str, sentence: str
) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "secret")
    assert was in WHOLE
    with pytest.raises(PipelineError, match=sentence) as raised:
        described(_file(tmp_path, WHOLE.replace(was, becomes, 1)))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(PipelineError, match=r"nowhere.toml cannot be read: No such file"):
        described("nowhere.toml")


def test_a_tolerance_without_an_amount_and_a_day_without_a_time_make_no_sense() -> None:
    with pytest.raises(PipelineError, match="there is a tolerance, but no amount"):
        two_paths("a", "b", {"key": ["id"], "tolerance": "1"})
    with pytest.raises(PipelineError, match="there is a day, but no ledger says which column is its time"):
        two_paths("a", "b", {"key": ["id"], "day": "2026-11-15"})


def _file(folder: Path, text: str) -> str:
    path = folder / "ledgers.toml"
    path.write_text(text)
    return str(path)
