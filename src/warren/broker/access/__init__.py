"""Users, passwords, permissions and limits.
Not here: logins (`broker.logins`), commands that change them (`broker.commands.requests.access`), counts of connections
(`broker.connections`).
"""
