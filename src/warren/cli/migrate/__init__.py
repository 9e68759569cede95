"""`warren migrate`: moving in from a live RabbitMQ.

::

    command ─▶ move ─▶ rabbitmq, destination (what both say) ─ migrating.plan ─▶ told, and imported
                    ─▶ carrying: a shovel for each queue ─ watched ─▶ counted, told
                    ─▶ guide: who is to be switched over, and when

Whatever it has begun is kept by the brokers alone, as definitions and as shovels. So it may be interrupted at any time,
and the same command, given again, goes on.

Not here: what is to be done, and whether everything arrived (`migrating`); carrying messages (`bridges`).
"""
