"""The error without OpenTelemetry."""

import subprocess
import sys


def test_without_opentelemetry_an_error_names_the_package_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import warren.client.telemetry.traces"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last == "ImportError: warren.client.telemetry needs OpenTelemetry: install warren[telemetry]"


def test_the_rest_of_the_client_needs_no_opentelemetry() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None; import warren.client.recovering, warren.client.listening"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
