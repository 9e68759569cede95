"""Makes the C files that mypyc wrote independent of one another, so that an edit recompiles a few of them.

mypyc includes two headers with the declarations of every module in every C file, and it numbers the literals of all
modules in one array. So a new method or a new string anywhere changes the input of every C file. Here a C file becomes
a unit: its text, the declarations it uses, and its literals under names of its own. The unit has everything the C
compiler needs besides the headers of Python and mypyc, so its text alone decides whether the object from an earlier
build is still valid. The unit of the group, which defines the array, says where in it each name lies.

Literals and declarations are hidden symbols: calls and loads within the library need no indirection.

Not here: the order of a build (tools/compile_core.py).
"""

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[A-Za-z_]\w+")
_LITERAL = re.compile(r"\bCPyStatics\[(\d+)\]")
_STRUCT = re.compile(
    r"(?:^#ifndef \w+\n#define \w+\n)?^typedef struct[^{]*\{[^}]*\} (\w+);\n(?:#endif\n)?", re.MULTILINE
)
_EXTERN = re.compile(r"^extern [^\n;]*;$", re.MULTILINE)
_DECLARED = re.compile(r"(\w+)(?:\[\w*\])*(?:;|\()")
_POINTER_BYTES = struct.calcsize("P")
_TOP_LEVEL = "_____top_level__(void);"
# The body of a module runs once. Unoptimized, it takes a tenth off the time to compile everything.
_RUNS_ONCE = '_____top_level__(void) __attribute__((optimize("O0")));'


@dataclass(frozen=True)
class Unit:
    """A C file by name, and its text."""

    name: str
    text: str


class Declarations:
    """The declarations of a group's headers, by the name that each declares, in the order of the headers."""

    def __init__(self, headers: Iterable[str]) -> None:
        self._places: dict[str, int] = {}
        self._texts: list[str] = []
        for header in headers:
            for match in _STRUCT.finditer(header):
                self._add(match[1], match[0])
            for match in _EXTERN.finditer(header):
                self._add(_declared(match[0]), match[0].replace(_TOP_LEVEL, _RUNS_ONCE))
        self._named = [self._names_in(text) for text in self._texts]

    def needed_by(self, text: str) -> Iterator[str]:
        """The declarations that the text uses, and those that they use in turn."""
        found: set[int] = set()
        waiting = self._names_in(text)
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting |= self._named[place]
        return (self._texts[place] for place in sorted(found))

    def _add(self, name: str, text: str) -> None:
        if name not in self._places:  # mypyc declares the same module cache for every module that imports it
            self._places[name] = len(self._texts)
            self._texts.append(text)

    def _names_in(self, text: str) -> set[int]:
        places = self._places
        return {places[name] for name in set(_NAME.findall(text)) if name in places}


def _declared(declaration: str) -> str:
    match = _DECLARED.search(declaration)
    assert match is not None, f"not a declaration as mypyc writes it: {declaration}"
    return match[1]


def prelude(headers: Iterable[str]) -> str:
    """The headers of Python and mypyc that the group's headers include; they differ only with the toolchain."""
    included = {line: None for header in headers for line in header.splitlines() if line.startswith("#include")}
    return "\n".join(line for line in included if "__native_" not in line) + "\n"


def module_units(files: Iterable[Path], declarations: Declarations) -> tuple[list[Unit], str]:
    """A unit for the C file of each module; and the assembly that says where the literals they name are."""
    units: list[Unit] = []
    places: list[str] = []
    for file in files:
        prefix = f"CPyLiteral_{file.stem.removeprefix('__native_')}_"
        literals: dict[str, str] = {}  # a literal's number, and its name, which counts within this file

        def name_of(match: re.Match[str], prefix: str = prefix, literals: dict[str, str] = literals) -> str:
            return literals.setdefault(match[1], f"{prefix}{len(literals)}")

        body = _LITERAL.sub(name_of, _without_includes(file.read_text()))
        assert "CPyStatics" not in body, f"{file}: a literal that is not taken by its number"
        named = [f"extern PyObject *{name};" for name in literals.values()]
        units.append(Unit(file.stem, _hidden([*declarations.needed_by(body), *named], body)))
        places += [_assembly(name, int(number)) for number, name in literals.items()]
    return units, "\n".join(places)


def group_unit(file: Path, declarations: Declarations, places: str) -> Unit:
    """The unit that starts the library, and has the array of the literals."""
    body = _without_includes(file.read_text())
    return Unit(file.stem, _hidden(declarations.needed_by(body), f"{body}\n{places}\n"))


def shim_units(files: dict[str, Path]) -> list[tuple[Unit, list[str]]]:
    """mypyc's start of each module, by the module's name; as few units as there are modules of the same last name.

    A library of a unit is put under the file names of all its modules: Python calls what is named like the module.
    """
    packs: list[dict[str, str]] = []
    for module, file in files.items():
        leaf = file.stem  # of a package, too, whose module is its __init__
        pack = next((pack for pack in packs if leaf not in pack), None)
        if pack is None:
            pack = {}
            packs.append(pack)
        pack[leaf] = module
    return [
        (Unit(f"shims_{number}", "".join(_shim(leaf, files[pack[leaf]]) for leaf in pack)), list(pack.values()))
        for number, pack in enumerate(packs)
    ]


def _shim(leaf: str, file: Path) -> str:
    # Each shim defines this second name, which Windows asks for; a library may define it once.
    return file.read_text().replace("PyInit___init__", f"PyInit___init___of_{leaf}")


def _without_includes(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith('#include "__native_'))


def _hidden(declarations: Iterable[str], body: str) -> str:
    return "\n".join(["#pragma GCC visibility push(hidden)", *declarations, body, ""])


def _assembly(name: str, number: int) -> str:
    place = f"CPyStatics + {number * _POINTER_BYTES}"
    return f'__asm__(".globl {name}\\n.hidden {name}\\n.set {name}, {place}");'
