"""One HTTP request: its connection, its path, the user who sent it, the access level it needs, and the response.
Not here: what a path answers (`admin.resources`).
"""
