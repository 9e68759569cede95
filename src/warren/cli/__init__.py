"""The `warren` command and all its subcommands.
Not here: what a node does (`node`), the simulator (`sim`).
"""
