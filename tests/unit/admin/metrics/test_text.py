"""Prometheus' text format, read by its own parser."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from warren.admin.metrics.text import GAUGE, MetricFamily, label_value, labels, number


def read_back(text: str) -> str:
    """The only label of the only sample, as parsed."""
    (family,) = text_string_to_metric_families(f'# TYPE m gauge\nm{{name="{text}"}} 1\n')
    (sample,) = family.samples
    return str(sample.labels["name"])


@given(st.text())
def test_any_name_is_read_back_as_it_is(name: str) -> None:
    assert read_back(label_value(name)) == name


@given(st.binary(max_size=20))
def test_a_name_that_is_not_utf_8_is_shown_by_its_bytes(raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    shown = read_back(label_value(name))
    assert shown.encode() == raw or "\\x" in shown


def test_bytes_that_are_not_utf_8_are_hexadecimal() -> None:
    assert label_value("a\udcff") == "a\\\\xff"


def test_labels_keep_their_order() -> None:
    assert labels(vhost="/", queue='say "hi"\n') == '{vhost="/",queue="say \\"hi\\"\\n"}'
    assert labels() == ""


def test_numbers_can_be_parsed_as_floats() -> None:
    assert number(2**53) == "9007199254740992"
    assert number(0.25) == "0.25"
    assert number(4.6e-05) == "4.6e-05"
    assert number(None) == "NaN"


def test_the_head_of_a_family_has_its_type_and_its_sentence_on_one_line_each() -> None:
    head = MetricFamily("queues", GAUGE, "Two\nlines and a \\").head("rabbitmq_")
    assert head == "# TYPE rabbitmq_queues gauge\n# HELP rabbitmq_queues Two\\nlines and a \\\\\n"
