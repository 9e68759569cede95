"""A minimal Office Open XML spreadsheet, of one sheet or several.

Not here: reading them.
"""

import zipfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

CELL = str | int | float | bool | date | None
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OF_FILES = "http://schemas.openxmlformats.org/package/2006"
OF_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
FIRST_DAY = date(1899, 12, 30)


def write_spreadsheet(path: Path, sheets: Mapping[str, Sequence[Sequence[CELL]]]) -> Path:
    """Sheets by name, each a list of rows."""
    numbers = range(1, len(sheets) + 1)
    names = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="r{number}"/>'
        for number, name in zip(numbers, sheets, strict=True)
    )
    links = "".join(
        f'<Relationship Id="r{number}" Type="{OF_OFFICE}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        for number in numbers
    )
    look = f'<Relationship Id="look" Type="{OF_OFFICE}/styles" Target="styles.xml"/>'
    office = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{office}.worksheet+xml"/>'
        for number in numbers
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{OF_FILES}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/>{kinds}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{OF_FILES}/relationships"><Relationship Id="book" '
        f'Type="{OF_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OF_OFFICE}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{OF_FILES}/relationships">{links}{look}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>',
    }
    with zipfile.ZipFile(path, "w") as out:
        for name, text in files.items():
            out.writestr(name, text)
        for number, rows in zip(numbers, sheets.values(), strict=True):
            out.writestr(f"xl/worksheets/sheet{number}.xml", _sheet(rows))
    return path


def _sheet(rows: Sequence[Sequence[CELL]]) -> str:
    lines = [
        f'<row r="{number}">{"".join(_cell(f"{chr(65 + at)}{number}", cell) for at, cell in enumerate(row))}</row>'
        for number, row in enumerate(rows, 1)
    ]
    return f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _cell(place: str, value: CELL) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, date):
        return f'<c r="{place}" s="1"><v>{(value - FIRST_DAY).days}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
