"""The interpreter imports the compiled copy only if it was made from exactly the current sources.

A module's C file is compiled again only if the module, or a declaration it uses of another module, has changed.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

CHOOSER = "tools/importpath/warren_source.py"
C_UNITS = "tools/c_units.py"
STAMP_AS_BUILT = "import warren_source as s; s.STAMP.write_text(s.fingerprint())"
CHOICE = "import sys, warren_source; print(sys.path[0])"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one compiled and one uncompiled module, with a copy stamped as built from them."""
    for name in (CHOOSER, "requirements/build.txt", "tools/compile_core.py", C_UNITS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("src/warren/__init__.py", "src/warren/wire/__init__.py", "src/warren/node/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "build/compiled/warren/wire").mkdir(parents=True)
    _python(tmp_path, STAMP_AS_BUILT)
    return tmp_path


def test_a_copy_made_from_these_sources_is_imported_first(project: Path) -> None:
    assert _python(project, CHOICE) == str(project / "build/compiled")


def test_an_edited_source_puts_the_copy_out_of_use(project: Path) -> None:
    (project / "src/warren/wire/__init__.py").write_text("edited = True")
    assert _python(project, CHOICE) == str(project / "src")


def test_an_added_source_puts_the_copy_out_of_use(project: Path) -> None:
    (project / "src/warren/wire/frames.py").touch()
    assert _python(project, CHOICE) == str(project / "src")


def test_the_environment_can_ask_for_the_sources(project: Path) -> None:
    assert _python(project, CHOICE, WARREN_COMPILED="0") == str(project / "src")


def test_an_uncompiled_package_added_later_is_reached_through_the_copy(project: Path) -> None:
    (project / "src/warren/admin").mkdir()
    (project / "src/warren/admin/__init__.py").touch()
    found = _python(project, "import warren_source, warren.admin; print(warren.admin.__file__)")
    assert found == str(project / "build/compiled/warren/admin/__init__.py")


def test_a_package_compiled_in_part_is_made_of_compiled_modules_and_links(project: Path) -> None:
    for name in ("src/warren/client/__init__.py", "src/warren/client/link.py", "src/warren/client/machine/__init__.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
    (project / "build/compiled/warren/client/machine").mkdir(parents=True)
    (project / "build/compiled/warren/client/machine/__init__.py").touch()
    _python(project, STAMP_AS_BUILT)
    code = "import warren_source, warren.client.link as a, warren.client.machine as b; print(a.__file__, b.__file__)"
    copy = project / "build/compiled/warren/client"
    assert _python(project, code) == f"{copy / 'link.py'} {copy / 'machine/__init__.py'}"
    assert (copy / "link.py").is_symlink()
    assert not (copy / "machine").is_symlink()


HEADER = """
#ifndef MYPYC_DECLARED_tuple_T2OO
#define MYPYC_DECLARED_tuple_T2OO
typedef struct tuple_T2OO {
    PyObject *f0;
    PyObject *f1;
} tuple_T2OO;
#endif

extern PyObject *CPyStatics[58];
extern PyTypeObject *CPyType_frames___Frame;
extern tuple_T2OO CPyDef_frames___both(PyObject *cpy_r_frame);
extern char CPyDef_frames_____top_level__(void);
"""
BODY = """
tuple_T2OO use(PyObject *x) { return CPyDef_frames___both(x); }
PyObject *first(void) { return CPyStatics[FIRST]; }
PyObject *other(void) { return CPyStatics[7]; }
PyObject *again(void) { return CPyStatics[FIRST]; }
"""


def test_a_unit_has_the_declarations_it_names_and_those_that_they_name(tmp_path: Path) -> None:
    text = _unit(tmp_path, HEADER, BODY.replace("FIRST", "5"))[0]
    assert text.index("MYPYC_DECLARED_tuple_T2OO") < text.index("extern tuple_T2OO CPyDef_frames___both")
    assert "CPyType_frames___Frame" not in text


def test_literals_and_declarations_of_other_modules_leave_a_unit_as_it_is(tmp_path: Path) -> None:
    before, places = _unit(tmp_path, HEADER, BODY.replace("FIRST", "5"))
    more = HEADER.replace("58", "59") + "extern char CPyDef_frames___another(void);\n"
    after, other_places = _unit(tmp_path, more, BODY.replace("FIRST", "9"))
    assert before == after
    assert "CPyStatics + 40" in places
    assert "CPyStatics + 72" in other_places


def test_a_change_of_a_declaration_that_a_unit_names_changes_the_unit(tmp_path: Path) -> None:
    body = BODY.replace("FIRST", "5")
    before = _unit(tmp_path, HEADER, body)
    assert before != _unit(tmp_path, HEADER.replace("both(PyObject *cpy_r_frame)", "both(char cpy_r_frame)"), body)


def _unit(folder: Path, header: str, body: str) -> tuple[str, str]:
    """The text of a unit, and the places of its literals."""
    spec = importlib.util.spec_from_file_location("c_units", ROOT / C_UNITS)
    assert spec is not None
    assert spec.loader is not None
    c_units = sys.modules.setdefault("c_units", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(c_units)
    file = folder / "__native_warren___wire___reader.c"
    file.write_text(body)
    units, places = c_units.module_units([file], c_units.Declarations([header]))
    return units[0].text, places


def _python(project: Path, code: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "WARREN_COMPILED"}
    path = {"PYTHONPATH": str((project / CHOOSER).parent)}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=inherited | path | environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
