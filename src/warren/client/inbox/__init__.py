"""The inbox: a message is handled once, however often it comes.

    inbox = Inbox(engine, consumer="payments")
    handler = inbox.handler(pay)              # pay(connection, message)

A broker delivers at least once, and a relay sends at least once. What makes it once is a row: the message's business id
(`message_id`) is written into the consumer's own database, in the transaction in which the handler works.

    begin ──▶ record the id ──┬─ it is new ──▶ work ──▶ commit ──▶ ack
                              └─ it was there ─────────────────▶ ack

Promises and invariants:

1. The row is there if and only if the handler's work is. A handler that raises, a process that is killed, a database
   that goes away: neither is there, the message is not acked, and comes again.
2. Killed after the commit and before the ack, the message comes again, and is acked without running the handler.
3. Two that come at the same time, to whatever processes: the database lets the second wait for the first. If that
   commits, the second is a duplicate; if it fails, the second runs.
4. A message whose id is missing, or cannot be kept, is a `CannotConvert`, and a listener parks it: nobody could tell
   it from its duplicates.
5. Rows are kept for a time that is longer than any duplicate can be late. Old ones are removed in small steps, each a
   transaction of its own, by the database's clock, and never while a message is handled.

6. A receipt is written in the same transaction, so it is there if and only if the row is; a duplicate has it sent
   again. A message that its sender takes back is undone once if it was handled, and is never handled after that.

Consumers share a table; each sees its own rows.

Not here: what becomes of a message whose handler raised (`client.listening`), the table (`client.tables`), what a
sender makes of receipts (`client.receipts`).
"""

from warren.client.inbox.inbox import Inbox
from warren.client.inbox.receipt_writer import Refused, receipt_for
from warren.client.inbox.rows import Subject, subject_of

__all__ = ["Inbox", "Refused", "Subject", "receipt_for", "subject_of"]
