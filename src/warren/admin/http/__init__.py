"""HTTP requests and responses: connections, paths, logins, access levels, JSON.

Not here: what a path answers (`admin.resources`).
"""
