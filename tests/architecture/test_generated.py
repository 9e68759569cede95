"""Generated code is what its generator writes."""

import subprocess
import sys

from tests.architecture.source_tree import ROOT


def test_the_method_classes_are_those_of_the_table() -> None:
    checked = subprocess.run([sys.executable, ROOT / "tools/generate_methods.py", "--check"], check=False)
    assert checked.returncode == 0, "run tools/generate_methods.py"
