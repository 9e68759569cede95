"""AMQP 0-9-1 as bytes: frames, methods, content properties and field tables, read and written.

It knows no role, no clock and no socket: the same codec serves the broker and its clients. Bytes from the network
never raise anything but a `ConnectionFault`; what they cost is linear in their length.

Not here: what a method means and when it is allowed (`warren.session`).
"""
