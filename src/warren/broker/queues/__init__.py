"""One classic queue: its contents, consumers, limits, expiry and arguments.

Not here: streams (`broker.streams`), routing to queues (`broker.routing`), the log on disk (`broker.journal`),
publishing dead letters (`broker.dead_letters`).
"""
