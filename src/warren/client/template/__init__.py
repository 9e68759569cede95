"""A template: exchange, routing key and converter fixed once, and from then on `send(payload)`.

    payload ──▶ converter ──▶ Outgoing ──▶ Transport ──▶ confirm, or an error that says what became of it

| call | returns |
|---|---|
| `send` | when the broker has the message, with its id |
| `send_batch` | when the broker has all of them; a `BatchFailed` names those it has not |
| `transaction` | a block; when it is left, the broker has all that was sent by it, or nothing |
| `submit` | a future, as soon as fewer than `window` messages are undecided |
| `send_one_way` | when the message is handed over; nobody learns what became of it |

Promises: what cannot be converted is a `CannotConvert` before anything is sent, of a batch not one message. Every
message has an id (`message_id`), which is what an inbox knows it by; a payload that is sent a second time because the
first outcome was unknown keeps it if the program gives it. What is mandatory and has no queue is a `PublishFailed`.

`open_template` opens the transport that settings describe, declares their layout, and gives a template;
`template.blocking` does so for programs without an event loop.

Not here: reconnecting and resending (`client.recovering`), requests that wait for a reply (`client.listening`), sending
what a transaction has written (`client.outbox`).
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
