"""The `warren` command and its subcommands.

Not here: the node (`node`), the simulator (`sim`).
"""
