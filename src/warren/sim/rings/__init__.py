"""A pretend world of one ring: the real `Master` and `Mirror` machines in tiny nodes, and nothing else of a broker.

Everything that can happen next is an *action*: a message arrives, a batch is on disk, the store applies a proposal or
tells of one, a timer fires, somebody publishes, a link is lost, a node dies. There is no clock: any action that is
possible may be the next one. Chance picks (`run`), or all orders are tried (`explore`).

Not here: whole brokers in a cluster (`sim.cluster`).
"""
