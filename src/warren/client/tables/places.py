"""A database by a word for logs and metrics, that has no user and no password in it.

Not here: errors, which tell the whole URL but its password.
"""

from sqlalchemy import Engine


def place_of(engine: Engine) -> str:
    """`HOST:PORT/NAME`, or the name of a file."""
    url = engine.url
    if url.host is None:
        return url.database or ""
    port = "" if url.port is None else f":{url.port}"
    return f"{url.host}{port}/{url.database or ''}"
