"""AMQP 0-9-1 as bytes: frames, methods, content properties and field tables, read and written.

The codec knows no role, no clock and no socket: it serves the broker and its clients. Bytes from the network raise
nothing but a `ConnectionFault`, and cost time linear in their length.

Not here: the meaning of a method and when it is allowed (`warren.broker.sessions`).
"""
