"""One client's conversation with the node: handshake, connection, channels, publishing, confirms, deliveries,
transactions."""
