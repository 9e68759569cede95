"""A database that a person names by its URL: checked, and never told with its password.

| written                        | meaning                                                     |
|--------------------------------|-------------------------------------------------------------|
| `postgresql://USER@HOST/NAME`  | PostgreSQL, by psycopg, which comes with the extra          |
| `sqlite:///FILE`               | a file; one that is not there would be made, and be empty   |

What is told of a URL is never taken from a part that may hold a password: not one that makes no sense, and of its
options those alone that say where the server is.

Not here: the tables in it (`client.tables`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError

from warren.client.errors import CannotConnect, SettingsError, TablesRefused

DRIVER: Final = "postgresql+psycopg"
OPTIONS_SHOWN: Final = ("host", "port")


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
        engine = create_engine(known)
    except NoSuchModuleError as error:
        raise SettingsError(f"{named} is of a kind that nobody here knows: {error}") from None
    except ModuleNotFoundError as error:
        raise SettingsError(f"{named} needs a package that is not installed: {error.name}") from None
    except (ArgumentError, ValueError):
        # whose words have parts of the URL in them
        raise SettingsError(f"{named} is no URL; one is postgresql://USER@HOST/NAME, or sqlite:///FILE") from None
    if engine.dialect.is_async:
        raise SettingsError(f"{named} names a driver for asyncio, {engine.driver}: leave it out")
    return engine


def shown(engine: Engine) -> str:
    """Where it is, without a password, wherever in the URL that stands."""
    url = engine.url
    options = {name: value for name, value in url.query.items() if name in OPTIONS_SHOWN}
    return url.set(query=options).render_as_string(hide_password=True)


@contextmanager
def reached(engine: Engine) -> Iterator[None]:
    """What the database has to say, if it is of no help, as an error of ours in one sentence."""
    try:
        yield
    except DBAPIError as trouble:
        said = str(trouble.orig).strip().partition("\n")[0]
        if trouble.connection_invalidated or isinstance(trouble, InterfaceError | OperationalError):
            raise CannotConnect([(shown(engine), said)]) from trouble
        raise TablesRefused(f"{shown(engine)} refuses what it is asked: {said}") from trouble


def _known(url: URL, named: str, must_exist: bool) -> URL:
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername=DRIVER)
    kind = url.get_backend_name()
    if kind not in ("postgresql", "sqlite"):
        raise SettingsError(f"{named} is PostgreSQL or SQLite, not {kind}")
    if kind == "sqlite":
        _check_file(url.database or ":memory:", named, must_exist)
    elif "@" in f"{url.host}{url.database}":
        raise SettingsError(f"{named} has more than one @: in a user and a password it is written %40")
    return url


def _check_file(name: str, named: str, must_exist: bool) -> None:
    if name == ":memory:":
        raise SettingsError(f"{named} is a file of SQLite, sqlite:///FILE: nobody else sees a database in memory")
    if must_exist and not name.startswith("file:") and not Path(name).is_file():
        raise SettingsError(f"{named} names a file that is not there: {name}")
