"""The inbox: a message is handled once, however often it is delivered.

    inbox = Inbox(engine, consumer="payments")
    handler = inbox.handler(pay)              # pay(connection, message)

A broker delivers at least once, and a relay sends at least once. A row makes it once: the message's business id
(`message_id`) is written into the consumer's own database, in the transaction of the handler.

    begin ──▶ record the id ──┬─ it is new ──▶ work ──▶ commit ──▶ ack
                              └─ it was there ─────────────────▶ ack

Promises and invariants:

1. The row exists if and only if the handler's work does. If the handler raises, the process is killed or the database
   is lost, neither exists; the message is not acked, and the broker redelivers it.
2. If the process is killed after the commit and before the ack, the message is redelivered and acked without running
   the handler.
3. If the same message is handled twice at the same time, in any processes, the database lets the second wait for the
   first. If the first commits, the second is a duplicate; if it fails, the second runs.
4. A message whose id is missing or cannot be stored raises `CannotConvert`, and a listener parks it: it cannot be told
   from its duplicates.
5. Rows are kept longer than any duplicate can be late. Old rows are removed in small transactions, by the database's
   clock, and never while a message is handled.
6. A receipt is written in the same transaction, so it exists if and only if the row does; a duplicate causes it to be
   sent again. A message that its sender reverses is undone once if it was handled, and is never handled after that.

Consumers share a table; each sees its own rows.

Not here: messages whose handler raised (`client.listening`), the table (`client.tables`), receipts at the sender
(`client.receipts`).
"""

from warren.client.inbox.inbox import Inbox
from warren.client.inbox.receipt_writer import Refused, receipt_for
from warren.client.inbox.rows import Subject, subject_of

__all__ = ["Inbox", "Refused", "Subject", "receipt_for", "subject_of"]
