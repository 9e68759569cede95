"""A template: exchange, routing key and converter set once, then `send(payload)`.

    payload ──▶ converter ──▶ Outgoing ──▶ Transport ──▶ confirm, or an error with the outcome

| call | returns |
|---|---|
| `send` | when the broker has the message, with its id |
| `send_batch` | when the broker has all of them; a `BatchFailed` names those it has not |
| `transaction` | a block; when it is left, the broker has all messages sent in it, or none |
| `submit` | a future, as soon as fewer than `window` messages are undecided |
| `send_one_way` | when the message is handed over; its outcome is not reported |

Promises: a payload that cannot be converted raises `CannotConvert` before anything is sent, also for a batch. Every
message has an id (`message_id`), by which an inbox recognises it; a program that sends a payload again after an unknown
outcome passes the same id. An unroutable mandatory message raises `PublishFailed`.

`open_template` opens the transport of settings, declares their layout, and makes a template; `template.blocking` does
so for programs without an event loop.

Not here: reconnecting and resending (`client.recovering`), requests with replies (`client.listening`), messages of a
database transaction (`client.outbox`).
"""

from warren.client.template.template import (
    Overrides,
    Template,
    Transaction,
    new_message_id,
    open_template,
    with_alternate,
)

__all__ = ["Overrides", "Template", "Transaction", "new_message_id", "open_template", "with_alternate"]
