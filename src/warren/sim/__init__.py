"""The deterministic simulator: real brokers in a simulated world of clients, disks and networks. A seed is a whole run
and a bug report.

Not here: real processes and real faults (`tests/cluster`, `tests/durability`).
"""
