"""The history of a node's figures: samples taken on time, and rates and samples told to whoever asks.

A pass is driven in slices, between which the loop serves everybody else: `SLICE_S` of work, then a turn of the loop.

Not here: what a pass looks at (`history.sampler`), the form of the answers (`history.details`).
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import cast

from warren.admin.history.details import details, no_details, rate_details
from warren.admin.history.kinds import PLACES
from warren.admin.history.sampler import Sampler
from warren.admin.history.track import Track
from warren.admin.history_port import Span

SLICE_S = 0.002

# both are the whole, asked for in two parts
_SAME_AS = {"churn": "overview"}
_PARTS = ("channel_queue", "channel_exchange")


class History:
    """What every figure of a node was, from the moment it started."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.Handle | None = None

    # -- taking samples

    def start(self, loop: asyncio.AbstractEventLoop, now_ms: int) -> None:
        self._loop = loop
        self._sampler.begin()
        self._await_pass(now_ms)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def forget(self) -> None:
        """Begin anew from what there is; a pass that is under way is not finished."""
        assert self._loop is not None
        self.stop()
        self.start(self._loop, self._sampler.now_ms())

    def _await_pass(self, now_ms: int) -> None:
        """The middle of the next slot."""
        assert self._loop is not None
        interval_ms = self._sampler.interval_ms
        due_ms = (now_ms // interval_ms + 1) * interval_ms + interval_ms // 2
        self._handle = self._loop.call_later((due_ms - now_ms) / 1000, self._begin_pass)

    def _begin_pass(self) -> None:
        self._go_on(self._sampler.take())

    def _go_on(self, steps: Iterator[None]) -> None:
        assert self._loop is not None
        until = time.perf_counter() + SLICE_S
        for _ in steps:
            if time.perf_counter() >= until:
                self._handle = self._loop.call_soon(self._go_on, steps)
                return
        self._await_pass(self._sampler.now_ms())

    # -- telling

    def rated(self, kind: str, key: object, figures: Mapping[str, int], span: Span | None) -> dict[str, object]:
        """The figures, and beside each its `NAME_details`."""
        kind = _SAME_AS.get(kind, kind)
        if kind in _PARTS:
            return self._rated_part(kind, cast(tuple[int, int, str], key), figures)
        track = self._sampler.track(kind, key)
        places = PLACES[kind]
        rated: dict[str, object] = {}
        for name, value in figures.items():
            rated[name] = value
            rated[f"{name}_details"] = self._details(track, places.get(name), value, span)
        return rated

    def _details(
        self, track: Track | None, places: tuple[int, ...] | None, value: int, span: Span | None
    ) -> dict[str, object]:
        sampler = self._sampler
        if span is not None:
            now_ms, interval_ms = sampler.now_ms(), sampler.interval_ms
            if track is None or places is None:
                return no_details(value if places is None else 0, span, now_ms)
            return details(track, places, span, now_ms, interval_ms)
        if track is None or places is None or track.slot < sampler.slot:
            return {"rate": 0.0}
        return rate_details(track, places)

    def _rated_part(self, kind: str, key: tuple[int, int, str], figures: Mapping[str, int]) -> dict[str, object]:
        grown = self._sampler.parts.grown(kind, key, self._sampler.slot)
        places = PLACES[kind]
        rated: dict[str, object] = {}
        for name, value in figures.items():
            rate = 0.0
            if grown is not None and name in places and grown[1] > 0:
                rate = sum(grown[0][at] for at in places[name]) * 1000 / grown[1]
            rated[name] = value
            rated[f"{name}_details"] = {"rate": rate}
        return rated
