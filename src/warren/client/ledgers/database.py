"""A database that a person names by its URL: checked, and never told with its password.

| written                        | meaning                                                     |
|--------------------------------|-------------------------------------------------------------|
| `postgresql://USER@HOST/NAME`  | PostgreSQL, by psycopg, which comes with the extra          |
| `sqlite:///FILE`               | a file that is there: one that is not would be made, empty  |

Not here: the tables in it (`client.tables`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from warren.client.errors import CannotConnect, SettingsError

DRIVER = "postgresql+psycopg"


def open_database(url: str, user: str = "", password: str = "") -> Engine:
    """Nothing is asked yet; a `SettingsError` if the URL makes no sense. User and password may stand beside it."""
    try:
        known = _known(make_url(url))
        if user:
            known = known.set(username=user)
        if password:
            known = known.set(password=password)
        return create_engine(known)
    except ArgumentError:
        raise SettingsError(
            "the database's URL is none; one is postgresql://USER@HOST/NAME, or sqlite:///FILE"
        ) from None
    except NoSuchModuleError as error:
        raise SettingsError(f"the database is of a kind that nobody here knows: {error}") from None
    except ModuleNotFoundError as error:
        raise SettingsError(f"the database's driver is not installed: {error.name}") from None


@contextmanager
def reached(engine: Engine) -> Iterator[None]:
    """What the database has to say, if it is of no help, as a `CannotConnect`."""
    try:
        yield
    except DBAPIError as trouble:
        where = engine.url.render_as_string(hide_password=True)
        raise CannotConnect([(where, str(trouble.orig).strip().partition("\n")[0])]) from trouble


def _known(url: URL) -> URL:
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername=DRIVER)
    kind = url.get_backend_name()
    if kind not in ("postgresql", "sqlite"):
        raise SettingsError(f"the tables are kept in SQLite or PostgreSQL, not in {kind}")
    if kind == "sqlite":
        _check_file(url.database or ":memory:")
    return url


def _check_file(name: str) -> None:
    if name == ":memory:":
        raise SettingsError("a database in memory is seen by nobody else: name a file, as in sqlite:///FILE")
    if not name.startswith("file:") and not Path(name).is_file():
        raise SettingsError(f"there is no database {name}")
