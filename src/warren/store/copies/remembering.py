"""What a copy knows of a queue besides its messages: the publishing ids of those it was given.

It notes the id of whatever is stored, as a queue does, and strikes out those of messages that turn out not to count. A
copy that catches up is told all ids by its master, once it has everything else: they stand for what it knew before, and
are written down, because most of their messages are gone.

Not here: the window (`model.window`), the records (`store.remembrance`).
"""

from warren.model.identity import NOBODY
from warren.model.window import row_of
from warren.store.payloads import payload_identity, payload_is_identified
from warren.store.queue_book import QueueBook
from warren.store.remembrance import ADDED, ANEW, TAKEN_OFF, write_seen


def see(book: QueueBook, payload: bytes, persistent: bool) -> None:
    """A message is held."""
    if payload_is_identified(payload):
        book.seen.add(payload_identity(payload, 0), persistent and book.durable)


def unsee(book: QueueBook, payload: bytes) -> None:
    """It does not count after all."""
    if not payload_is_identified(payload):
        return
    identity = payload_identity(payload, 0)
    if identity != NOBODY:
        book.seen.discard(identity)
        if book.durable:
            write_seen(book.journal.batch, book.queue_id, TAKEN_OFF, row_of(identity, True))


def take_seen(book: QueueBook, rows: bytes, anew: bool) -> bool:
    """What a master knows; whether it is to be written down."""
    if not rows and book.seen.count == 0:
        return False
    if anew:
        book.seen.clear()
    book.seen.load(rows, False)
    if book.durable:
        write_seen(book.journal.batch, book.queue_id, ANEW if anew else ADDED, rows)
    return book.durable
