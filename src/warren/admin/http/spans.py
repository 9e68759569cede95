"""Which samples a request wants beside the figures: `lengths_age=60&lengths_incr=5` and the like.

Both an age and a step are needed; one alone, or what is no number, is passed over. A step of nothing, and more samples
than a chart can show, are refused.

Not here: the samples (`admin.history_port`).
"""

from warren.admin.history_port import Span, Spans
from warren.admin.http.faults import bad_request

SAMPLES_MAX = 500


def spans_of(query: dict[str, str]) -> Spans:
    """What the request asks of each family of figures."""
    return Spans(
        lengths=_span(query, "lengths"),
        messages=_span(query, "msg_rates"),
        bytes=_span(query, "data_rates"),
        node=_span(query, "node_stats"),
    )


def _span(query: dict[str, str], family: str) -> Span | None:
    age_s, step_s = _number(query.get(f"{family}_age", "")), _number(query.get(f"{family}_incr", ""))
    if age_s is None or step_s is None:
        return None
    if age_s < 0 or step_s <= 0 or age_s // step_s > SAMPLES_MAX:
        raise bad_request(f"Invalid range parameters: age {age_s}, incr {step_s}")
    return Span(age_s, step_s)


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
