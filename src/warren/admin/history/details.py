"""What is told of a figure besides its value: `rate`, and, when a span is asked for, `samples`, `avg_rate`, `avg`.

As in RabbitMQ: samples come newest first, `step` apart, the newest at the last multiple of the step, reaching back as
far as the age; a sample is what was known at its moment; with samples the rate is the one between the two newest.

Not here: the samples kept (`history.track`), the limits of a span (`http`).
"""

from warren.admin.history.track import Track
from warren.admin.history_port import Span


def rate_details(track: Track, places: tuple[int, ...]) -> dict[str, object]:
    """How fast it grew between the last two samples of its object."""
    if track.gap_ms <= 0:
        return {"rate": 0.0}
    before = track.slot - 1
    grown = sum(track.last[at] - track.at(before, at) for at in places)
    return {"rate": grown * 1000 / track.gap_ms}


def details(track: Track, places: tuple[int, ...], span: Span, now_ms: int, interval_ms: int) -> dict[str, object]:
    moments = moments_ms(span, now_ms)
    # a slot's sample is taken in its middle
    slots = [(moment - interval_ms // 2) // interval_ms for moment in moments]
    if len(places) == 1:
        samples = [track.at(slot, places[0]) for slot in slots]
    else:
        samples = [sum(track.at(slot, at) for at in places) for slot in slots]
    return _told(samples, moments, span)


def no_details(value: int, span: Span, now_ms: int) -> dict[str, object]:
    """Of a figure that is not sampled."""
    moments = moments_ms(span, now_ms)
    return _told([value] * len(moments), moments, span)


def moments_ms(span: Span, now_ms: int) -> list[int]:
    """The moments of the samples, newest first."""
    step_ms = span.step_s * 1000
    newest_ms = now_ms // step_ms * step_ms
    return [newest_ms - back * step_ms for back in range(span.age_s // span.step_s + 1)]


def _told(samples: list[int], moments: list[int], span: Span) -> dict[str, object]:
    count = len(samples)
    return {
        "rate": (samples[0] - samples[1]) / span.step_s if count > 1 else 0.0,
        "samples": [{"sample": sample, "timestamp": at} for sample, at in zip(samples, moments, strict=True)],
        "avg_rate": (samples[0] - samples[-1]) / ((count - 1) * span.step_s) if count > 1 else 0.0,
        "avg": sum(samples) / count,
    }
