"""The resources of the HTTP API. Each module has the paths, rows, changes and body schemas of one resource, as in
RabbitMQ's management API.

Not here: requests and responses (`admin.http`), lists (`admin.listing`), the router (`admin.api`).
"""
