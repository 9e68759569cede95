"""One queue: its contents, consumers, limits, expiry and declaration.

Not here: streams (`streams`), routing to queues (`routing`), the log on disk (`journal`), publishing of dead letters
(`warren.broker.dead_letters`).
"""
