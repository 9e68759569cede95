"""The job `report`: read the lake's events, add them up, write the page.

The page is put in its place whole, when all is known: a job that is killed leaves the page that was there.

Not here: the command line (`cli.pipeline.report`).
"""

from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import DataFrame, SparkSession

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.progress import watch
from warren.pipeline.report.findings import gather
from warren.pipeline.report.outlook import Limits
from warren.pipeline.report.page import page
from warren.pipeline.trace import lake
from warren.pipeline.trace.passages import passages


@dataclass(frozen=True)
class Settings:
    """The lake, the file to write, and of which days (both included) and virtual host; None is all."""

    lake: Folder
    out: str
    since: date | None = None
    until: date | None = None
    vhost: str | None = None
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """What can be said before Spark is there."""
        lake.check(self.lake)
        if self.since and self.until and self.since > self.until:
            raise PipelineError(f"there are no days from {self.since} to {self.until}")
        _, name = self.place
        if not name or _is_folder(Folder(self.out)):
            raise PipelineError(f"{self.out} is a folder, and the report is a file")

    @property
    def place(self) -> tuple[Folder, str]:
        """The folder of the file, and its name there."""
        above, separator, name = self.out.rpartition("/")
        return Folder(above or "/" if separator else "."), name


@dataclass(frozen=True)
class Outcome:
    """Where the page is, and how many events it is about."""

    path: str
    events: int


def run(spark: SparkSession, settings: Settings) -> Outcome:
    """Write the report."""
    settings.check()
    events = chosen(lake.events(spark, settings.lake), settings)
    with watch(spark, "report"):
        found = gather(events, passages(events))
        unreadable = lake.quarantine(spark, settings.lake).count()
    if found is None:
        raise PipelineError(f"{settings.lake} has no events{_of_which(settings)}")
    folder, name = settings.place
    folder.put_text(name, page(found, settings.limits, unreadable))
    return Outcome(f"{folder}/{name}", found.events)


def chosen(events: DataFrame, settings: Settings) -> DataFrame:
    """The events that the report is about. Days and virtual hosts are folders of the lake: others are not read."""
    if settings.since is not None:
        events = events.where(events["day"] >= settings.since)
    if settings.until is not None:
        events = events.where(events["day"] <= settings.until)
    if settings.vhost is not None:
        events = events.where(events["vhost"] == settings.vhost)
    return events


def _of_which(settings: Settings) -> str:
    words = "" if settings.vhost is None else f" of the virtual host {settings.vhost!r}"
    words += "" if settings.since is None else f" since {settings.since}"
    return words + ("" if settings.until is None else f" until {settings.until}")


def _is_folder(place: Folder) -> bool:
    try:
        return bool(place.children())
    except NotADirectoryError:
        return False
