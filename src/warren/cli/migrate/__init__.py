"""`warren migrate`: move from a live RabbitMQ. It compares and imports definitions, moves contents with shovels, and
proves by counts that everything arrived.

Not here: shovels themselves (`bridges`).
"""
