"""The resources of the HTTP API, one module each: its paths, its rows as RabbitMQ's management API has them, and its
changes. Not here: requests and responses (`admin.http`), lists (`admin.listing`), the table of all paths (`admin.api`).
"""
