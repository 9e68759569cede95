"""A node that serves no clients because it is cut off still answers operators."""

from pathlib import Path

from tests.admin.three_nodes import Trio, eventually


def test_a_node_that_paused_says_so(tmp_path: Path) -> None:
    configuration = tmp_path / "nodes.conf"
    configuration.write_text("cluster_partition_handling = pause_minority\n")
    pair = Trio(tmp_path / "pair", "--nodes", "2", "--config", str(configuration))
    try:
        pair.run("kill", "n2")
        rows = eventually(lambda: pair[0].api.read("nodes"), lambda found: found[0].get("paused") is True)
        assert [(row["name"], row["running"]) for row in rows] == [(pair.names[0], False), (pair.names[1], False)]
        fitness = pair[0].api.get("warren/fitness?reluctant=200", user=None)
        assert (fitness.status, fitness.json["status"]) == (503, "unfit")
        assert [reason["code"] for reason in fitness.json["reasons"]] == ["paused"]
        pair.run("start", "n2")
        eventually(
            lambda: [(row["running"], "paused" in row) for row in pair[0].api.read("nodes")],
            lambda found: found == [(True, False)] * 2,
        )
    finally:
        pair.run("down")
