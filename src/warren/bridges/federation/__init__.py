"""Federated exchanges and queues: they take messages from exchanges and queues of the same name in upstream brokers.

Not here: how messages are carried (`bridges.transfer`), shovels (`bridges.shovels`).
"""
