"""Users, passwords, permissions, limits and logins.

Not here: commands that change them (`broker.commands.access`), counts of connections (`broker.connections`).
"""
