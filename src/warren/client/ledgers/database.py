"""A database that a person names by its URL: checked, and never told with its password.

| written                        | meaning                                                     |
|--------------------------------|-------------------------------------------------------------|
| `postgresql://USER@HOST/NAME`  | PostgreSQL, by psycopg, which comes with the extra          |
| `sqlite:///FILE`               | a file; one that is not there would be made, and be empty   |

Not here: the tables in it (`client.tables`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from warren.client.errors import CannotConnect, SettingsError

DRIVER = "postgresql+psycopg"


def open_database(
    url: str, user: str = "", password: str = "", *, named: str = "the database", must_exist: bool = True
) -> Engine:
    """Nothing is asked yet; a `SettingsError` if the URL makes no sense, which calls it as it is `named`.

    User and password may stand beside the URL.
    """
    try:
        known = _known(make_url(url), named, must_exist)
        if user:
            known = known.set(username=user)
        if password:
            known = known.set(password=password)
        return create_engine(known)
    except NoSuchModuleError as error:
        raise SettingsError(f"{named} is of a kind that nobody here knows: {error}") from None
    except ArgumentError:
        raise SettingsError(f"{named} is no URL; one is postgresql://USER@HOST/NAME, or sqlite:///FILE") from None


@contextmanager
def reached(engine: Engine) -> Iterator[None]:
    """What the database has to say, if it is of no help, as a `CannotConnect`."""
    try:
        yield
    except DBAPIError as trouble:
        where = engine.url.render_as_string(hide_password=True)
        raise CannotConnect([(where, str(trouble.orig).strip().partition("\n")[0])]) from trouble


def _known(url: URL, named: str, must_exist: bool) -> URL:
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername=DRIVER)
    kind = url.get_backend_name()
    if kind not in ("postgresql", "sqlite"):
        raise SettingsError(f"{named} is PostgreSQL or SQLite, not {kind}")
    if kind == "sqlite":
        _check_file(url.database or ":memory:", named, must_exist)
    return url


def _check_file(name: str, named: str, must_exist: bool) -> None:
    if name == ":memory:":
        raise SettingsError(f"{named} is a file of SQLite, sqlite:///FILE: nobody else sees a database in memory")
    if must_exist and not name.startswith("file:") and not Path(name).is_file():
        raise SettingsError(f"{named} names a file that is not there: {name}")
