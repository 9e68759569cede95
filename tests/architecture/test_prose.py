"""No file has unfinished parts, skipped tests, or text about the place it was written in."""

import re

from tests.architecture.source_tree import project_files, python_files, shown

# Brackets round one letter keep a pattern from finding itself.
ELSEWHERE = re.compile(
    r"/w[o]rk/|/r[o]ot/|/h[o]me/\w|\.\./sh[a]red|\b(sub-?[a]gent|help[e]r agent|devel[o]per session|th[i]s session"
    r"|langu[a]ge model|cl[a]ude|chat[g]pt)\b",
    re.IGNORECASE,
)
REGISTRY = re.compile(r"https?://\S+/(simpl[e]|packag[e]s)/|ind[e]x-url\s*=\s*\S*http|\"resolv[e]d\":\s*\"http")
UNFINISHED = re.compile(
    r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b|N[o]tImplementedError|mark\.(sk[i]p|xf[a]il)|pytest\.(sk[i]p|xf[a]il)\("
)


def test_no_file_speaks_of_the_place_it_was_written_in() -> None:
    assert _found(ELSEWHERE, project_files()) == []


def test_no_file_names_a_package_registry() -> None:
    assert _found(REGISTRY, project_files()) == []


def test_nothing_is_unfinished_or_skipped_except_for_a_missing_feature_of_the_machine() -> None:
    [sentence, *more] = _found(UNFINISHED, python_files("src", "tests", "tools", "examples", "bench", "conformance"))
    assert sentence.startswith("tests/support/machine.py:")
    assert more == []


def _found(pattern: re.Pattern[str], files: tuple) -> list[str]:
    return [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
