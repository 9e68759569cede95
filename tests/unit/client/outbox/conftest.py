"""A database with the tables in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from warren.client.tables import create_tables


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path}/outbox.db")
    create_tables(engine)
    yield engine
    engine.dispose()
