"""Compiles the core of Warren (everything from `broker` down, and the client's machine) with mypyc into build/compiled.

The sources are first copied to build/core, so that edits made meanwhile can neither tear the build nor be taken for
built; the C files and type-checking results stay there, and the next build starts from them. The result replaces
build/compiled in one rename. tools/importpath/warren_source.py decides whether it is used.

    python tools/compile_core.py                   compile, unless the copy is current
    python tools/compile_core.py --unless-failed   the same, but sources that failed to compile are not tried again
    python tools/compile_core.py --is-current      exit 0 when there is nothing to compile

Not here: whether a compiler exists, and what to do when there is none (tools/setup).
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "importpath"))
import warren_source as source

BUILD = source.ROOT / "build"
WORK = BUILD / "core"
LOG = BUILD / "compile.log"
FAILED = BUILD / "failed-fingerprint"
WORKERS = os.cpu_count() or 1


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
    print(f"compile: {len(modules)} modules of the core with mypyc and cc -O3; this takes some minutes", flush=True)
    started = time.monotonic()
    with LOG.open("w") as log:
        command = [sys.executable, __file__, "--in-copy", *modules]
        code = subprocess.run(command, cwd=WORK, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if code != 0:
        errors = [line for line in LOG.read_text().splitlines() if "error" in line]
        print("\n".join(["compile: failed", *errors[-20:]]), file=sys.stderr)
        FAILED.write_text(fingerprint)
        return 1
    _install(fingerprint)
    print(f"compile: done in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _copy_sources() -> str:
    """Mirror src/warren into the working copy, leaving unchanged files (and their times) alone."""
    made_by = WORK / "toolchain"
    if not made_by.exists() or made_by.read_bytes() != source.toolchain():
        shutil.rmtree(WORK, ignore_errors=True)  # what another compiler left behind is not to be built upon
        WORK.mkdir()
        made_by.write_bytes(source.toolchain())
    wanted = {path.relative_to(source.SOURCE) for path in source.compiled_modules()}
    wanted.add(Path("warren/__init__.py"))
    # a package of which only a part is compiled is an empty one here: what it imports is not there
    hollow = {Path("warren") / name / "__init__.py" for name in source.partly_compiled()}
    wanted |= hollow
    for stale in {path.relative_to(WORK) for path in (WORK / "warren").rglob("*.py")} - wanted:
        (WORK / stale).unlink()
        shutil.rmtree(WORK / "out", ignore_errors=True)
    for name in wanted:
        target = WORK / name
        text = b"" if name in hollow else (source.SOURCE / name).read_bytes()
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    return source.fingerprint(WORK)


def _compile_in_copy(modules: list[str]) -> None:
    """Run mypyc and the C compiler in the working copy; every module of the group calls the others directly.

    A module is a C file of its own: compiled side by side, and again only if it or a header has changed. As one file
    they took twice the time to compile, and ran no faster.
    """
    from mypyc.build import mypycify
    from setuptools import setup

    extensions = mypycify(
        [f"--config-file={source.ROOT / 'pyproject.toml'}", *modules],
        opt_level="3",
        debug_level="0",
        multi_file=True,
        group_name="warren_core",
    )
    for extension in extensions:
        # a newer compiler's new warning is no reason to run slower
        extension.extra_compile_args = [*extension.extra_compile_args, "-Wno-error"]
    setup(
        name="warren_core",
        packages=[],
        ext_modules=extensions,
        cmdclass={"build_ext": _side_by_side()},
        script_args=["build_ext", "--build-lib", "out", "--build-temp", "objects", "--parallel", str(WORKERS)],
    )


def _side_by_side() -> type[Any]:
    """setuptools' way to build extensions, but for the C files of one, which it compiles all, one after the other."""
    from setuptools.command.build_ext import build_ext

    class SideBySide(build_ext):
        def build_extensions(self) -> None:
            compile_in_turn = self.compiler.compile
            header_time = max(path.stat().st_mtime for path in Path("build").rglob("*.h"))

            def compile_one(path: str, output_dir: str, **options: Any) -> list[str]:
                objects: list[str] = self.compiler.object_filenames([path], output_dir=output_dir)
                needed = max(header_time, Path(path).stat().st_mtime)
                if all(Path(made).exists() and Path(made).stat().st_mtime > needed for made in objects):
                    return objects
                return compile_in_turn([path], output_dir=output_dir, **options)

            def compile_all(sources: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(WORKERS) as pool:
                    made = list(pool.map(lambda path: compile_one(path, **options), sources))
                return [each for objects in made for each in objects]

            self.compiler.compile = compile_all
            super().build_extensions()

    return SideBySide


def _install(fingerprint: str) -> None:
    """Put the compiled modules, and links to the uncompiled rest of the package, in place of build/compiled."""
    fresh, old = BUILD / "compiled.fresh", BUILD / "compiled.old"
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(WORK / "out", fresh)
    (fresh / "warren").mkdir(exist_ok=True)
    source.link_shell(fresh / "warren")
    (fresh / source.STAMP.name).write_text(fingerprint)
    if source.COMPILED.exists():
        source.COMPILED.rename(old)
    os.replace(fresh, source.COMPILED)
    shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-copy"]:
        _compile_in_copy(sys.argv[2:])
    else:
        sys.exit(main())
