"""The history of a node's statistics: takes samples on time, and gives rates and samples to rows.

A pass runs in slices of `SLICE_S`, between which the event loop continues.

As in RabbitMQ, each value has `NAME_details` with a `rate` and, if a span is requested, `samples`, `avg_rate` and
`avg`. Samples are newest first, `step` apart, the newest at the last multiple of the step, back to the requested age.
With samples, the rate is that between the two newest.

Not here: what a pass visits (`history.sampler`), the stored samples (`history.series`), limits of spans
(`admin.message_stats`).
"""

import asyncio
import time
from collections.abc import Mapping
from typing import cast

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.admin.history.counters import PLACES
from warren.admin.history.sampler import Sampler
from warren.admin.history.series import SampleSeries
from warren.admin.ports import SampleSpan


def rate_details(series: SampleSeries, places: tuple[int, ...]) -> dict[str, object]:
    """The growth between the last two samples of the object."""
    if series.gap_ms <= 0:
        return {"rate": 0.0}
    before = series.slot - 1
    grown = sum(series.last[at] - series.at(before, at) for at in places)
    return {"rate": grown * 1000 / series.gap_ms}


def details(
    series: SampleSeries, places: tuple[int, ...], span: SampleSpan, now_ms: int, interval_ms: int
) -> dict[str, object]:
    moments = moments_ms(span, now_ms)
    # a sample is taken in the middle of its slot
    slots = [(moment - interval_ms // 2) // interval_ms for moment in moments]
    if len(places) == 1:
        samples = [series.at(slot, places[0]) for slot in slots]
    else:
        samples = [sum(series.at(slot, at) for at in places) for slot in slots]
    return _sample_rows(samples, moments, span)


def no_details(value: int, span: SampleSpan, now_ms: int) -> dict[str, object]:
    """Details of a value that is not sampled."""
    moments = moments_ms(span, now_ms)
    return _sample_rows([value] * len(moments), moments, span)


def moments_ms(span: SampleSpan, now_ms: int) -> list[int]:
    """The times of the samples, newest first."""
    step_ms = span.step_s * 1000
    newest_ms = now_ms // step_ms * step_ms
    return [newest_ms - back * step_ms for back in range(span.age_s // span.step_s + 1)]


def _sample_rows(samples: list[int], moments: list[int], span: SampleSpan) -> dict[str, object]:
    count = len(samples)
    return {
        "rate": (samples[0] - samples[1]) / span.step_s if count > 1 else 0.0,
        "samples": [{"sample": sample, "timestamp": at} for sample, at in zip(samples, moments, strict=True)],
        "avg_rate": (samples[0] - samples[-1]) / ((count - 1) * span.step_s) if count > 1 else 0.0,
        "avg": sum(samples) / count,
    }


SLICE_S = 0.002

# two names for the node's totals
_SAME_AS = {"churn": "overview"}
_PARTS = ("channel_queue", "channel_exchange")


class StatsHistory:
    """The history of every statistic of a node since it started."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._tasks: BackgroundTasks | None = None
        self._passes: BackgroundTask | None = None

    # -- taking samples

    def start(self, tasks: BackgroundTasks) -> None:
        self._tasks = tasks
        self._sampler.begin()
        self._passes = tasks.start("statistics", self._run)

    def stop(self) -> None:
        if self._passes is not None:
            self._passes.cancel()
            self._passes = None

    def forget(self) -> None:
        """Start again from the current values. A pass in progress is abandoned."""
        assert self._tasks is not None
        self.stop()
        self.start(self._tasks)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._wait_ms() / 1000)
            await self._pass()

    def _wait_ms(self) -> int:
        """The time to the middle of the next slot."""
        now_ms, interval_ms = self._sampler.now_ms(), self._sampler.interval_ms
        return (now_ms // interval_ms + 1) * interval_ms + interval_ms // 2 - now_ms

    async def _pass(self) -> None:
        until = time.perf_counter() + SLICE_S
        for _ in self._sampler.take():
            if time.perf_counter() >= until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE_S

    # -- rates

    def rated(self, kind: str, key: object, stats: Mapping[str, int], span: SampleSpan | None) -> dict[str, object]:
        """The values, each with its `NAME_details`."""
        kind = _SAME_AS.get(kind, kind)
        if kind in _PARTS:
            return self._rated_part(kind, cast(tuple[int, int, str], key), stats)
        series = self._sampler.series(kind, key)
        places = PLACES[kind]
        rated: dict[str, object] = {}
        for name, value in stats.items():
            rated[name] = value
            rated[f"{name}_details"] = self._details(series, places.get(name), value, span)
        return rated

    def _details(
        self, series: SampleSeries | None, places: tuple[int, ...] | None, value: int, span: SampleSpan | None
    ) -> dict[str, object]:
        sampler = self._sampler
        if span is not None:
            now_ms, interval_ms = sampler.now_ms(), sampler.interval_ms
            if series is None or places is None:
                return no_details(value if places is None else 0, span, now_ms)
            return details(series, places, span, now_ms, interval_ms)
        if series is None or places is None or series.slot < sampler.slot:
            return {"rate": 0.0}
        return rate_details(series, places)

    def _rated_part(self, kind: str, key: tuple[int, int, str], stats: Mapping[str, int]) -> dict[str, object]:
        grown = self._sampler.parts.grown(kind, key, self._sampler.slot)
        places = PLACES[kind]
        rated: dict[str, object] = {}
        for name, value in stats.items():
            rate = 0.0
            if grown is not None and name in places and grown[1] > 0:
                rate = sum(grown[0][at] for at in places[name]) * 1000 / grown[1]
            rated[name] = value
            rated[f"{name}_details"] = {"rate": rate}
        return rated
