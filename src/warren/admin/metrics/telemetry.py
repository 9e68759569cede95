"""What scrapes themselves cost: how often, how long, how much, for each document and encoding.

A scrape tells of those before it. Its duration is that of its work, waiting for others and for a slow reader included.

Not here: the scrapes (`metrics.scrape`).
"""

from warren.admin.metrics.text import CONTENT_TYPE, SUMMARY, Family, labels

_DURATION = Family("telemetry_scrape_duration_seconds", SUMMARY, "Scrape duration")
_SIZE = Family("telemetry_scrape_size_bytes", SUMMARY, "Scrape size, not encoded")
_ENCODED = Family("telemetry_scrape_encoded_size_bytes", SUMMARY, "Scrape size, encoded")


class Telemetry:
    """Counts and sums since the node started."""

    def __init__(self) -> None:
        self._durations: dict[str, tuple[int, float]] = {}
        self._sizes: dict[str, tuple[int, float]] = {}
        self._encoded: dict[str, tuple[int, float]] = {}

    def scraped(self, registry: str, encoding: str, duration_s: float, size_bytes: int, encoded_bytes: int) -> None:
        where = labels(registry=registry, content_type=CONTENT_TYPE)
        _add(self._durations, where, duration_s)
        _add(self._sizes, where, size_bytes)
        _add(self._encoded, labels(registry=registry, content_type=CONTENT_TYPE, encoding=encoding), encoded_bytes)

    def text(self) -> str:
        families = [(_DURATION, self._durations), (_SIZE, self._sizes), (_ENCODED, self._encoded)]
        return "".join(_summary(family, samples) for family, samples in families)


def _add(samples: dict[str, tuple[int, float]], where: str, value: float) -> None:
    count, total = samples.get(where, (0, 0))
    samples[where] = count + 1, total + value


def _summary(family: Family, samples: dict[str, tuple[int, float]]) -> str:
    lines = [family.head("")]
    for where, (count, total) in samples.items():
        lines.append(f"{family.name}_count{where} {count}\n{family.name}_sum{where} {total}\n")
    return "".join(lines)
