"""Moments and places, as the charts and tables of a report name them.

Not here: the charts (`pipeline.html.charts`).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from warren.pipeline.html.charts import Series
from warren.pipeline.report.findings import Courses, Findings, Place

STEP_NAMES = {1: "second", 60: "minute", 3600: "hour", 86_400: "day"}
OTHERS = "all others"


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def moments(found: Findings) -> list[int]:
    """Every step from the first event to the last."""
    first = found.first_s // found.step_s * found.step_s
    return list(range(first, found.last_s + 1, found.step_s))


def step_name(found: Findings) -> str:
    return STEP_NAMES[found.step_s]


def label(found: Findings, place: Place | None) -> str:
    """A name; with its virtual host if there are several."""
    if place is None:
        return OTHERS
    name = place.name or "(default)"
    return f"{name} in {place.vhost}" if found.vhosts > 1 else name


def busiest(courses: Courses) -> list[Place | None]:
    """Places by what they have in all, most first; the others last."""
    named = [place for place in courses if place is not None]
    named.sort(key=lambda place: (-sum(courses[place].values()), place))
    return [*named, *([None] if None in courses else [])]


def course_series(found: Findings, courses: Courses) -> list[Series]:
    """A line for each place; a step without a message is a zero."""
    steps = moments(found)
    return [
        Series(label(found, place), [courses[place].get(moment, 0) for moment in steps]) for place in busiest(courses)
    ]


def running(changes: Mapping[int, int], steps: Iterable[int]) -> list[int]:
    """The sum of all changes up to each step."""
    level = 0
    levels: list[int] = []
    for moment in steps:
        level += changes.get(moment, 0)
        levels.append(level)
    return levels
