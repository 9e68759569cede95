"""`warren ha plan` of nodes that are known by names."""

from pathlib import Path

from tests.ha.front import warren
from tests.unit.ha.deployments import FILE


def test_names_are_looked_up_for_the_firewall(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE.replace('"10.0.0.22"', '"localhost"'))
    done = warren("ha", "plan", str(file), "--rules", "warren@n1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ip saddr { 127.0.0.1, 10.0.0.23 } tcp dport 25672 accept" in done.stdout


def test_a_name_that_nobody_knows_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE.replace('"10.0.0.22"', '"no-such-host.invalid"'))
    done = warren("ha", "plan", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert "node warren@n2 is at no-such-host.invalid, and a firewall's rules need addresses" in done.stderr
