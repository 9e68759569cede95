"""The asyncio shell round the pure core: sockets, TLS, the clock, configuration, logs, signals."""
