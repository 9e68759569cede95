"""The AMQP 0-9-1 codec: frames, methods, content properties and field tables, decoded and encoded.

The codec has no role, clock or socket: broker and clients share it. Bytes from the network raise nothing but a
`ConnectionFault`, and decoding takes time linear in their length.

Not here: the meaning of a method and when it is allowed (`warren.broker.sessions`).
"""
