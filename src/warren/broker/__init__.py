"""The pure state machine of one node: events in, effects out, through `Broker.handle`.

Not here: sockets, disk and clocks (`node`).
"""
