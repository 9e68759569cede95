"""`warren migrate`: a move from a live RabbitMQ. Definitions are compared and imported, shovels move the contents,
counts prove that everything arrived. Not here: shovels themselves (`bridges`).
"""
