"""Forgetting what the journal no longer needs to know of a queue: what lies below all that is there, or is gone.

Not here: the rest of what it knows (`store.queue_book`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.store.queue_book import QueueBook


def raise_floors(book: "QueueBook") -> None:
    """Whatever lies below all that is there is gone."""
    for level, removed in enumerate(book.removed):
        lowest: i64 = book.next_position
        for holding in book.holdings:
            if holding.level == level and holding.first < lowest:
                lowest = holding.first
        removed.raise_floor(lowest)


def forget_returns(book: "QueueBook") -> None:
    """Of messages that are gone, whoever removed them."""
    lowest: i64 = book.next_position
    for holding in book.holdings:
        lowest = min(lowest, holding.first)
    removed = book.removed[0]
    for position in list(book.return_counts):
        # one of several levels is not known by its position alone
        if position < lowest or (book.max_priority == 0 and removed.has(position)):
            del book.return_counts[position]
