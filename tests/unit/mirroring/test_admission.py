


def test_an_order_of_members_is_as_good_as_another() -> None:
    """Of two that were worked out while the first was under way each would take the other's place for ever."""
    stage = MasterStage(ALONE.with_members(["a"])).opened()
    stage.master.want(["a", "b", "c"])
    stage.master.want(["a", "c", "b"])
    stage.master.changed(stage.proposed[0])
    assert [ring.members for ring in stage.proposed] == [["a", "b", "c"]]


def test_members_that_stay_keep_their_order_when_others_go() -> None:
    stage = promoted(BOTH.with_members(["a", "b", "c", "d"])).opened()
    resumed(stage, "b", 3)
    stage.unreached |= {"c", "d"}
    stage.master.want(["a", "d", "b"])
    assert [ring.members for ring in stage.proposed] == [["a", "b", "d"]]
