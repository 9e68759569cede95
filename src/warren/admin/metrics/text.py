r"""Prometheus' text format, version 0.0.4.

A family is a name, a type, a sentence and samples; all samples of a family follow its head, once. A label's value may
be any text: backslash, quote and newline are escaped. Names in AMQP are bytes; those that are not UTF-8 are shown as
`\xff`, because the format is UTF-8 throughout.

Not here: which families there are (`metrics.families`).
"""

from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4"

COUNTER = "counter"
GAUGE = "gauge"
UNTYPED = "untyped"
SUMMARY = "summary"

Value = int | float | None
"""None is known to be unknown: NaN."""


class MetricFamily(NamedTuple):
    """What its samples mean; the name is without its prefix."""

    name: str
    type: str
    help: str

    def head(self, prefix: str) -> str:
        name = prefix + self.name
        return f"# TYPE {name} {self.type}\n# HELP {name} {_help(self.help)}\n"


def labels(**values: str) -> str:
    """`{vhost="/",queue="q"}`; nothing for no labels."""
    if not values:
        return ""
    inside = ",".join(f'{name}="{label_value(value)}"' for name, value in values.items())
    return "{" + inside + "}"


def label_value(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: Value) -> str:
    if value is None:
        return "NaN"
    return repr(value)


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
