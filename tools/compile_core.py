"""Compiles the core of Warren (everything from `broker` down, and the client's machine) with mypyc into build/compiled.

The sources are first copied to build/core, so that an edit during the build neither breaks it nor counts as compiled. A
build has three phases, and prints its progress on standard output:

    1. mypyc checks the types and writes a C file for each module
    2. cc compiles the C files that differ from those of earlier builds (tools/c_units.py makes them comparable)
    3. the objects are linked to one library, and that is put in place of build/compiled in one rename

tools/importpath/warren_source.py decides whether the result is used.

    python tools/compile_core.py                   compile, unless the copy is current
    python tools/compile_core.py --unless-failed   the same, but sources that failed to compile are not tried again
    python tools/compile_core.py --is-current      exit 0 when there is nothing to compile

Not here: whether a compiler exists, and what to do when there is none (tools/setup).
"""

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "importpath"))
import c_units
import warren_source as source

BUILD = source.ROOT / "build"
WORK = BUILD / "core"
OBJECTS = WORK / "objects"
GENERATED = WORK / "generated.json"
LOG = BUILD / "compile.log"
FAILED = BUILD / "failed-fingerprint"
GROUP = "warren_core"
WORKERS = os.cpu_count() or 1
REPORT_S = 10.0

# mypyc's C is mostly calls and branches on their results: at -O3 it takes half as long again to compile, is larger,
# and a broker of it takes no less time for a message.
MODULE_LEVEL = "-O1"
RUNTIME_LEVEL = "-O3"


class CompileFailed(Exception):
    """A compiler refused its input; the log says why."""


def main() -> int:
    if not source.compiled_modules() or source.is_current():
        return 0
    if "--is-current" in sys.argv:
        return 1
    if "--unless-failed" in sys.argv and FAILED.exists() and FAILED.read_text() == source.fingerprint():
        return 1
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return 0 if source.is_current() else _build()


def _build() -> int:
    fingerprint = _copy_sources()
    modules = [str(path.relative_to(WORK)) for path in source.compiled_modules(WORK)]
    progress = Progress(f"{len(modules)} modules of the core")
    LOG.write_text("")
    try:
        with progress:
            progress.enter(1, "mypyc checks the types and writes C")
            _run([sys.executable, __file__, "--generate", *modules])
            libraries = _compile_and_link(_Generated(**json.loads(GENERATED.read_text())), progress)
    except CompileFailed:
        errors = [line for line in LOG.read_text().splitlines() if "error:" in line]
        print("\n".join(["compile: failed", *errors[-20:]]), file=sys.stderr)
        FAILED.write_text(fingerprint)
        return 1
    _install(fingerprint, libraries)
    progress.done()
    return 0


def _copy_sources() -> str:
    """Mirror src/warren into the working copy."""
    made_by = WORK / "toolchain"
    if not made_by.exists() or made_by.read_bytes() != source.toolchain():
        shutil.rmtree(WORK, ignore_errors=True)  # do not reuse the output of another compiler
        WORK.mkdir()
        made_by.write_bytes(source.toolchain())
    wanted = {path.relative_to(source.SOURCE) for path in source.compiled_modules()}
    wanted.add(Path("warren/__init__.py"))
    # a partly compiled package has an empty __init__ here, because the modules it imports are missing
    hollow = {Path("warren") / name / "__init__.py" for name in source.partly_compiled()}
    wanted |= hollow
    for stale in {path.relative_to(WORK) for path in (WORK / "warren").rglob("*.py")} - wanted:
        (WORK / stale).unlink()
    for name in wanted:
        target = WORK / name
        text = b"" if name in hollow else (source.SOURCE / name).read_bytes()
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    return source.fingerprint(WORK)


@dataclass(frozen=True)
class _Generated:
    """What mypyc wrote: its C files, the file that starts each module, and how they are to be compiled."""

    c_files: list[str]
    shims: dict[str, str]
    include_dirs: list[str]
    flags: list[str]


def _generate(modules: list[str]) -> None:
    """Have mypyc write the C files of the working copy; every module of the group calls the others directly.

    A module is a C file of its own. As one file they took twice the time to compile, and ran no faster.
    """
    import gc

    from mypyc.build import mypycify

    gc.disable()  # nearly everything lives until the end
    library, *shims = mypycify(
        [f"--config-file={source.ROOT / 'pyproject.toml'}", *modules],
        debug_level="0",
        multi_file=True,
        group_name=GROUP,
    )
    generated: dict[str, Any] = {
        "c_files": library.sources,
        "shims": {shim.name: shim.sources[0] for shim in shims},
        "include_dirs": library.include_dirs,
        "flags": [flag for flag in library.extra_compile_args if not flag.startswith(("-O", "-Werror"))],
    }
    GENERATED.write_text(json.dumps(generated))
    sys.stdout.flush()
    os._exit(0)  # freeing every object would take seconds


def _compile_and_link(generated: _Generated, progress: "Progress") -> dict[Path, list[str]]:
    """The libraries, each with the file names (without suffix) of its modules."""
    progress.enter(2, "cc compiles the C files")
    compiler = _Compiler(generated)
    files = [WORK / name for name in generated.c_files]
    native = {file.stem for file in files if file.stem.startswith("__native_")} - {f"__native_{GROUP}"}
    headers = [(WORK / "build" / f"__native_{part}{GROUP}.h").read_text() for part in ("", "internal_")]
    declarations = c_units.Declarations(headers)
    compiler.prepare(c_units.prelude(headers))
    units, places = c_units.module_units((file for file in files if file.stem in native), declarations)
    group = next(file for file in files if file.stem == f"__native_{GROUP}")
    runtime = [c_units.Unit(file.stem, file.read_text()) for file in files if file.stem not in native and file != group]
    shims = c_units.shim_units({name: WORK / file for name, file in generated.shims.items()})

    units.append(c_units.group_unit(group, declarations, places))
    jobs = [*((unit, MODULE_LEVEL) for unit in units), *((unit, RUNTIME_LEVEL) for unit in runtime)]
    made = compiler.compile([*jobs, *((unit, MODULE_LEVEL) for unit, _ in shims)], progress)

    progress.enter(3, "the linker makes the libraries")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    library = WORK / f"{GROUP}__mypyc{suffix}"
    compiler.link([made[unit.name] for unit, _ in jobs], library)
    libraries = {library: [f"{GROUP}__mypyc"]}
    for unit, names in shims:
        path = WORK / f"{unit.name}{suffix}"
        compiler.link([made[unit.name]], path)
        libraries[path] = [name.replace(".", "/") for name in names]
    _forget_objects_but(made.values())
    return libraries


def _forget_objects_but(needed: Iterable[Path]) -> None:
    for stale in set(OBJECTS.iterdir()) - set(needed):
        if not stale.name.startswith("prelude"):
            stale.unlink()


class _Compiler:
    """cc and the linker, with the options of the interpreter's own build, except for the optimization."""

    def __init__(self, generated: _Generated) -> None:
        found = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        self._cc = found if shutil.which(found[0]) else ["cc"]
        own = shlex.split(sysconfig.get_config_var("CFLAGS") or "")
        python = [f for f in own if f.startswith(("-f", "-m", "-D")) and "lto" not in f and "profile" not in f]
        includes = {sysconfig.get_path("include"): None, sysconfig.get_path("platinclude"): None}
        self._flags = [
            *python,
            "-fPIC",
            "-fno-common",
            "-fvisibility=hidden",
            *(f"-I{path}" for path in [*generated.include_dirs, *includes]),
            *generated.flags,
            "-Werror=implicit-function-declaration",  # a unit has every declaration that it needs, or is not compiled
        ]
        self._prelude = OBJECTS / "prelude.h"
        linker = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
        self._linker = [*self._cc, *linker[1:]]
        tools = f"{sys.version}{self._cc}{self._flags}".encode()
        self._identity = hashlib.sha256(tools + _output([*self._cc, "--version"]))

    def prepare(self, prelude: str) -> None:
        """Precompile the headers that every unit includes; a unit that cannot use them includes the plain headers."""
        OBJECTS.mkdir(exist_ok=True)
        self._identity.update(prelude.encode())
        self._prelude.write_text(prelude)
        _run(
            [*self._cc, *self._flags, MODULE_LEVEL, "-x", "c-header", str(self._prelude), "-o", f"{self._prelude}.gch"]
        )

    def compile(self, jobs: list[tuple[c_units.Unit, str]], progress: "Progress") -> dict[str, Path]:
        """The objects of the units by name. The longest come first, so that no core waits for another in the end."""
        made = {unit.name: self._object(unit, level) for unit, level in jobs}
        waiting = [(unit, level) for unit, level in jobs if not made[unit.name].exists()]
        waiting.sort(key=lambda job: len(job[0].text), reverse=True)
        progress.count(len(waiting), kept=len(jobs) - len(waiting))
        with ThreadPoolExecutor(WORKERS) as pool:
            running = [pool.submit(self._compile_one, unit, level, made[unit.name]) for unit, level in waiting]
            try:
                for each in as_completed(running):
                    each.result()
                    progress.one_more()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return made

    def link(self, objects: list[Path], library: Path) -> None:
        _run([*self._linker, *map(str, objects), "-o", str(library)])

    def _object(self, unit: c_units.Unit, level: str) -> Path:
        identity = self._identity.copy()
        identity.update(f"{level}\n{unit.text}".encode())
        return OBJECTS / f"{unit.name}.{identity.hexdigest()[:20]}.o"

    def _compile_one(self, unit: c_units.Unit, level: str, made: Path) -> None:
        text, unfinished = made.with_suffix(".c"), made.with_suffix(".part")
        text.write_text(unit.text)
        included = ["-include", str(self._prelude)] if unit.name.startswith("__native_") else []
        _run([*self._cc, *self._flags, level, *included, "-c", str(text), "-o", str(unfinished)])
        unfinished.rename(made)
        text.unlink()


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    with LOG.open("ab") as log:
        log.write(shlex.join(command).encode() + b"\n" + done.stdout)
    if done.returncode != 0:
        raise CompileFailed(command[0])


def _output(command: list[str]) -> bytes:
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).stdout
    return b""


def _install(fingerprint: str, libraries: dict[Path, list[str]]) -> None:
    """Put the compiled modules, and links to the uncompiled rest of the package, in place of build/compiled."""
    fresh, old = BUILD / "compiled.fresh", BUILD / "compiled.old"
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for library, names in libraries.items():
        first = fresh / f"{names[0]}{suffix}"
        first.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, first)
        for name in names[1:]:
            target = fresh / f"{name}{suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(first)
    source.link_shell(fresh / "warren")
    (fresh / source.STAMP.name).write_text(fingerprint)
    if source.COMPILED.exists():
        source.COMPILED.rename(old)
    os.replace(fresh, source.COMPILED)
    shutil.rmtree(old, ignore_errors=True)


class Progress:
    """The progress of a build: one line that is overwritten on a terminal, and elsewhere a line every ten seconds."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._phase, self._doing = 0, ""
        self._total, self._made = 0, 0
        self._on_terminal = sys.stdout.isatty()
        self._stopped = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        print(f"compile: {what} with mypyc and cc, in three phases", flush=True)

    def __enter__(self) -> "Progress":
        self._ticker.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stopped.set()
        self._ticker.join()
        if self._on_terminal:
            print("\r\x1b[K", end="", flush=True)

    def enter(self, phase: int, doing: str) -> None:
        self._phase, self._doing = phase, doing
        self._total, self._made = 0, 0

    def count(self, total: int, kept: int) -> None:
        self._doing += f"; {kept} are unchanged" if kept else ""
        self._total = total

    def one_more(self) -> None:
        self._made += 1

    def done(self) -> None:
        print(f"compile: done in {self._clock() - self._started:.0f} s", flush=True)

    def _line(self) -> str:
        counted = f": {self._made} of {self._total}" if self._total else ""
        return f"compile: phase {self._phase} of 3, {self._doing}{counted} ({self._clock() - self._started:.0f} s)"

    def _tick(self) -> None:
        while not self._stopped.wait(0.2 if self._on_terminal else REPORT_S):
            if self._on_terminal:
                columns = shutil.get_terminal_size().columns - 1
                print(f"\r\x1b[K{self._line()[:columns]}", end="", flush=True)
            else:
                print(self._line(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--generate"]:
        _generate(sys.argv[2:])
    else:
        sys.exit(main())
