"""What one copy has and another has not, as spans of positions.

Not here: sending it (`broker.mirrors`).
"""

from mypy_extensions import i64

from warren.model.copies import Span


def difference(ours: list[Span], theirs: list[Span], below: i64) -> list[Span]:
    """What is in `ours` and not in `theirs`, of positions below that one. Both are in order, and so is the answer."""
    found: list[Span] = []
    place = 0
    for span in ours:
        first: i64 = span.first
        last: i64 = min(span.last, below - 1)
        while place < len(theirs) and theirs[place].last < first:
            place += 1
        at = place
        while first <= last and at < len(theirs) and theirs[at].first <= last:
            if theirs[at].first > first:
                found.append(Span(first, theirs[at].first - 1))
            first = theirs[at].last + 1
            at += 1
        if first <= last:
            found.append(Span(first, last))
    return found
