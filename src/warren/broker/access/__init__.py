"""Users, passwords, tokens, permissions, limits, and logins with their backends.

Not here: commands that change them (`broker.commands.access`), counts of connections (`broker.connections`).
"""
