"""`warren ha render`: its files, and when it writes none; the real HAProxy and Keepalived check them."""

import subprocess
from pathlib import Path

import pytest

from tests.ha.front import warren
from tests.support.debian import environment, program
from tests.support.node_process import NodeProcess
from tests.unit.cli.ha.deployments import FILE, deployment
from warren.cli.ha import bundle
from warren.cli.ha.deployment import KeepalivedSettings
from warren.cli.ha.deployment_file import parse_deployment
from warren.errors import ConfigError, WarrenError

WRITTEN = {
    "deployment.toml",
    *(f"{balancer}/etc/haproxy/haproxy.cfg" for balancer in ("lb1", "lb2")),
    *(
        f"{balancer}/etc/keepalived/{name}"
        for balancer in ("lb1", "lb2")
        for name in ("keepalived.conf", "warren-check")
    ),
    *(
        f"warren-at-n{number}/etc/{name}"
        for number in (1, 2, 3)
        for name in (
            "warren/warren.conf",
            "systemd/system/warren.service",
            "sysusers.d/warren.conf",
            "tmpfiles.d/warren.conf",
        )
    ),
}


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def with_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process finds Debian's programs, too."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


def test_everything_is_written_where_it_belongs_on_each_machine(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE)
    done = warren("ha", "render", str(file), "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert files_in(tmp_path / "out") >= WRITTEN
    assert done.stdout.splitlines()[-1] == "HAProxy and Keepalived accept it."
    assert (tmp_path / "out/lb1/etc/keepalived/warren-check").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/lb1/etc/keepalived/keepalived.conf").stat().st_mode & 0o777 == 0o644
    assert parse_deployment((tmp_path / "out/deployment.toml").read_text(), "out") == parse_deployment(FILE, "ours")


def test_the_files_as_they_are_written_please_the_programs(tmp_path: Path) -> None:
    """On a machine that has all that they name, but HAProxy's user."""
    file = tmp_path / "ours.toml"
    settings = f'[haproxy]\nuser = ""\n\n[keepalived]\ndirectory = "{tmp_path}/k"\n'
    file.write_text(FILE + settings)
    assert warren("ha", "render", str(file), "--out", str(tmp_path / "out")).returncode == 0
    written = tmp_path / "out/lb2/etc/haproxy/haproxy.cfg"
    done = subprocess.run([program("haproxy"), "-c", "-f", str(written)], env=environment(), capture_output=True)
    assert done.returncode == 0, done


def test_a_second_rendering_replaces_its_files_and_leaves_others(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE)
    assert warren("ha", "render", str(file), "--out", str(tmp_path / "out")).returncode == 0
    (tmp_path / "out/notes.txt").write_text("mine")
    file.write_text(FILE.replace("10.0.0.10/24", "10.0.0.9/24"))
    assert warren("ha", "render", str(file), "--out", str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out/notes.txt").read_text() == "mine"
    assert "10.0.0.9/24 dev eth0" in (tmp_path / "out/lb1/etc/keepalived/keepalived.conf").read_text()
    assert not list((tmp_path / "out").glob(".render-*"))


@pytest.mark.parametrize(
    ("was", "is_now", "sentence"),
    [
        ('"10.0.0.23"', '"no-such-host.invalid"', "HAProxy refuses the configuration of lb1, and nothing was written"),
        ('"10.0.0.23"', '"no-such-host.invalid"', "could not resolve address 'no-such-host.invalid'"),
        (
            'interface = "eth1"',
            'interface = "lo"',
            "Keepalived refuses the configuration of lb2, and nothing was written",
        ),
        ('interface = "eth1"', 'interface = "lo"', "cannot use a loopback interface"),
    ],
)
def test_a_configuration_that_a_program_refuses_is_not_written(
    tmp_path: Path, was: str, is_now: str, sentence: str
) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE.replace(was, is_now))
    done = warren("ha", "render", str(file), "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_refusal_leaves_what_was_rendered_before(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE)
    assert warren("ha", "render", str(file), "--out", str(tmp_path / "out")).returncode == 0
    before = {name: (tmp_path / "out" / name).read_bytes() for name in files_in(tmp_path / "out")}
    file.write_text(FILE.replace('"10.0.0.23"', '"no-such-host.invalid"').replace("10.0.0.10/24", "10.0.0.9/24"))
    assert warren("ha", "render", str(file), "--out", str(tmp_path / "out")).returncode == 1
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files_in(tmp_path / "out")} == before


def test_the_program_itself_says_what_is_wrong_with_a_rendering(with_programs: None) -> None:
    """Ours would have refused these before."""
    with pytest.raises(WarrenError, match=r"Keepalived refuses the configuration of lb1.*router"):
        bundle.check_configurations(deployment(keepalived=KeepalivedSettings(router_id=300)))
    with pytest.raises(WarrenError, match=r"HAProxy refuses the configuration of lb1.*\[haproxy.cfg:\d+\].*70000"):
        bundle.check_configurations(deployment(ports={"amqp": 70000}))


def test_a_missing_program_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_programs: None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bundle, "_PLACES", ())
    with pytest.raises(
        ConfigError, match=r"no haproxy on this machine .*: install Debian's package haproxy, or give --unch"
    ):
        bundle.check_configurations(deployment())


def test_an_unknown_user_is_reported_as_not_checked(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    for user, remarks in (("haporxy", 1), ("root", 0)):
        file.write_text(f'{FILE}\n[haproxy]\nuser = "{user}"\n')
        done = warren("ha", "render", str(file), "--out", str(tmp_path / "out"))
        assert done.returncode == 0
        said = "haproxy.user was not checked: there is no user haporxy on this machine; there must be one on the"
        assert done.stdout.count(said) == remarks


def test_unchecked_files_are_said_to_be_unchecked(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE.replace('"10.0.0.23"', '"no-such-host.invalid"'))
    done = warren("ha", "render", str(file), "--out", str(tmp_path / "out"), "--unchecked")
    assert done.returncode == 0
    assert done.stdout.endswith("Not checked by HAProxy and Keepalived.\n")
    assert files_in(tmp_path / "out") >= WRITTEN


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give the FILE that describes the deployment, or --from"),
        (("nowhere.toml",), "nowhere.toml cannot be read: No such file or directory"),
        (("--from", "http://127.0.0.1:9"), "--from needs --virtual ADDRESS/LENGTH"),
        (("--from", "http://127.0.0.1:9", "--virtual", "10.0.0.10"), "--virtual must be like 10.0.0.10/24"),
    ],
)
def test_wrong_usage_is_reported_in_a_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = warren("ha", "render", "--out", str(tmp_path / "out"), *words)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_without_write_permission_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(FILE)
    (tmp_path / "taken").write_text("a file")
    done = warren("ha", "render", str(tmp_path / "ours.toml"), "--out", str(tmp_path / "taken"))
    assert done.returncode == 1
    assert "nothing was written" in done.stderr


def test_a_running_cluster_describes_itself(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "n1", "--name", "warren@n1")
    try:
        url = f"http://127.0.0.1:{node.addresses['http'][1]}"
        doors = ("--virtual", "127.0.0.10/8", "--balancer", "lb1=127.0.0.11", "--balancer", "lb2=127.0.0.12%bond0")
        done = warren("ha", "render", "--from", url, *doors, "--out", str(tmp_path / "out"))
        assert done.returncode == 0, done
        refused = warren("ha", "render", "--from", url, *doors, "--out", str(tmp_path / "no"), "--password", "wrong")
    finally:
        node.stop()
    told = parse_deployment((tmp_path / "out/deployment.toml").read_text(), "out")
    assert [each.interface for each in told.balancers] == ["eth0", "bond0"]
    [found] = told.nodes
    assert (found.name, found.address) == ("warren@n1", "127.0.0.1")
    assert found.ports["amqp"] == told.ports["amqp"] == node.addresses["amqp"][1]
    assert refused.returncode == 1
    assert "cannot be asked for its nodes" in refused.stderr
    assert not (tmp_path / "no").exists()
