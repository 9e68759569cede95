"""Connections between nodes on asyncio: the peer listener, the dialer, the handshake, the connections, the cookie.

Not here: what nodes say to each other (`warren.broker.links`).
"""
