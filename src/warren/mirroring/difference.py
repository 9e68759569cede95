"""What one copy has and another has not, as spans of positions.

Not here: sending it (`broker.mirrors`).
"""

from mypy_extensions import i64

from warren.model.copies import Span


def difference(ours: list[Span], theirs: list[Span], below: i64) -> list[Span]:
    """What is in `ours` and not in `theirs`, of positions below that one.

    Both are in order: by level, then by position; within each list spans neither overlap nor touch twice.
    """
    found: list[Span] = []
    place = 0
    for span in ours:
        first: i64 = span.first
        last: i64 = min(span.last, below - 1)
        while place < len(theirs) and (
            theirs[place].level < span.level or (theirs[place].level == span.level and theirs[place].last < first)
        ):
            place += 1
        at = place
        while first <= last and at < len(theirs) and theirs[at].level == span.level and theirs[at].first <= last:
            other = theirs[at]
            if other.first > first:
                found.append(Span(span.level, first, other.first - 1))
            first = other.last + 1
            at += 1
        if first <= last:
            found.append(Span(span.level, first, last))
    return found
