"""Scrapes of a core, read back by Prometheus' own parser."""

import asyncio
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.admin.history.world import SampledCore
from warren.admin.command_queue import CommandQueue
from warren.admin.http.authentication import Authenticator
from warren.admin.metrics.groups import MetricGroup
from warren.admin.metrics.scrape import scrape
from warren.admin.metrics.scrape_source import ScrapeSource
from warren.broker.model.events import Event

Labels = tuple[tuple[str, str], ...]


class Scraped:
    """A scrape: its text, its pieces, and the parsed samples."""

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces
        self.text = "".join(pieces)
        self.samples: dict[tuple[str, Labels], float] = {}
        self.types: dict[str, str] = {}
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.samples, f"{key} is there twice"
                self.samples[key] = sample.value
                self.types[sample.name] = family.type

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, tuple(sorted(labels.items()))]

    def of(self, name: str) -> dict[Labels, float]:
        return {labels: value for (known, labels), value in self.samples.items() if known == name}

    def check_form(self) -> None:
        """Each family has one head, followed by all its samples."""
        heads = Counter(line.split()[2] for line in self.text.splitlines() if line.startswith("# TYPE "))
        assert set(heads.values()) == {1}
        family = ""
        for line in self.text.splitlines():
            if line.startswith("# "):
                family = line.split()[2]
            else:
                name = line.replace("{", " ").split()[0]
                assert name.removesuffix("_sum").removesuffix("_count") == family or name == family
        assert self.text.endswith("\n")


def scraped(core: SampledCore, groups: list[MetricGroup], vhosts: frozenset[str] | None = None) -> Scraped:
    def add(event: Event) -> None:
        core.turn(event)

    async def pieces() -> list[str]:
        accounts = Authenticator(core.broker, CommandQueue(asyncio.get_running_loop(), add))
        source = ScrapeSource(core.broker, core.facts, accounts, vhosts)
        return [piece async for piece in scrape(groups, source)]

    return Scraped(asyncio.run(pieces()))
