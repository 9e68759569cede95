"""The rows of a spreadsheet, of whichever program.

Such files know one kind of number; one without a fraction is a whole number here, as whoever typed it meant it. An
empty cell is null.

Not here: what becomes of the rows (`load.records`).
"""

from collections.abc import Iterator
from typing import Any, Final

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, WorksheetNotFound

from warren.pipeline.errors import PipelineError

EXACT_MAX: Final = 2.0**53


def sheet_rows(uri: str, source: Any, sheet: str) -> Iterator[list[Any]]:
    """The rows of a sheet, of the first if none is named, that are not empty; all of them have the same width."""
    try:
        book = CalamineWorkbook.from_filelike(source)
        found = book.get_sheet_by_name(sheet) if sheet else book.get_sheet_by_index(0)
        rows = found.to_python()
    except WorksheetNotFound:
        raise PipelineError(f"{uri} has no sheet {sheet!r}: {', '.join(book.sheet_names)} are there") from None
    except PasswordError:
        raise PipelineError(f"{uri} is protected by a password") from None
    except CalamineError as error:
        raise PipelineError(f"{uri} is no spreadsheet: {str(error).splitlines()[0]}") from None
    values = ([_value(cell) for cell in row] for row in rows)
    return (row for row in values if any(value is not None for value in row))


def _value(cell: Any) -> Any:
    if cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT_MAX:
        return int(cell)
    return cell
