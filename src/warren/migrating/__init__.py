"""Moving in from a live RabbitMQ: what is to be done, worked out from what both brokers say of themselves.

::

    RabbitMQ's definitions ─┐
    RabbitMQ's queues ──────┤ plan ─▶ what is brought · what is left out, and why · what is in the way
    Warren's definitions ───┘         which queues are carried, by which shovel (`shovels`)
    counts before and after ── counting ─▶ whether everything arrived

Everything here is a function of documents: nothing asks, waits or prints. A plan that finds nothing left to do is
empty, so a run that was interrupted goes on by being started again.

Not here: asking the brokers and telling the operator (`cli.migrate`), carrying messages (`bridges`).
"""
