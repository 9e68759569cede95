"""Databases for the client's tables: a file of SQLite, and a real PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, MetaData, create_engine

from tests.support.postgres import DATABASE, USER, Postgres


def sqlite_url(folder: Path) -> str:
    """SQLite has one lock without a queue: a writer that finds it taken retries, for longer than the usual 5 s."""
    return f"sqlite:///{folder / 'inbox.db'}?timeout=60"


def postgres_url(server: Postgres) -> str:
    return f"postgresql+psycopg://{USER}@127.0.0.1:{server.port}/{DATABASE}"


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """The database; its tables are dropped in the end."""
    engine = create_engine(url)
    try:
        yield engine
        there = MetaData()
        there.reflect(engine)
        there.drop_all(engine)
    finally:
        engine.dispose()
