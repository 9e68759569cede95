"""When alarms are raised and cleared."""

from warren.broker.alarms import DiskAlarm, MemoryAlarm, reason_of

LIMIT = 1_000_000


def alarm_with(used: int, held: int, limit: int = LIMIT) -> MemoryAlarm:
    alarm = MemoryAlarm(0.5)
    alarm.measured(used, limit, held)
    return alarm


def test_a_node_that_was_never_measured_is_not_alarmed() -> None:
    assert not MemoryAlarm(0.5).update(10**15)


def test_a_limit_of_nothing_is_no_limit() -> None:
    assert not alarm_with(used=10**12, held=10**12, limit=0).update(10**12)


def test_the_alarm_rises_above_the_limit_and_not_at_it() -> None:
    assert not alarm_with(used=LIMIT, held=500_000).update(500_000)
    assert alarm_with(used=LIMIT + 1, held=500_000).update(500_000)


def test_bytes_added_since_the_measurement_count() -> None:
    alarm = alarm_with(used=600_000, held=100_000)
    assert not alarm.update(500_000)
    assert alarm.update(500_001)


def test_bytes_removed_since_the_measurement_count() -> None:
    alarm = alarm_with(used=LIMIT + 200_000, held=600_000)
    assert alarm.update(600_000)
    assert not alarm.update(300_000)


def test_a_large_process_that_holds_few_messages_is_not_alarmed() -> None:
    assert not alarm_with(used=3 * LIMIT, held=249_999).update(249_999)
    assert alarm_with(used=3 * LIMIT, held=250_000).update(250_000)


def test_a_limit_next_to_nothing_alarms_a_node_that_holds_nothing() -> None:
    assert alarm_with(used=1_000_000, held=0, limit=1).update(0)


def test_an_alarm_is_over_only_a_twentieth_below_the_limit() -> None:
    alarm = alarm_with(used=600_000, held=0)
    assert alarm.update(400_001)
    assert alarm.update(350_001)
    assert not alarm.update(350_000)
    assert not alarm.update(400_000)


def test_an_alarm_that_few_messages_would_end_is_cleared_at_half_of_its_level() -> None:
    alarm = alarm_with(used=3 * LIMIT, held=0)
    assert alarm.update(250_000)
    assert alarm.update(125_000)
    assert not alarm.update(124_999)
    assert not alarm.update(249_999)


def test_a_higher_limit_ends_the_alarm() -> None:
    alarm = alarm_with(used=2 * LIMIT, held=LIMIT)
    assert alarm.update(LIMIT)
    alarm.measured(2 * LIMIT, 4 * LIMIT, LIMIT)
    assert not alarm.update(LIMIT)


def test_a_process_that_seems_smaller_than_its_messages_counts_its_messages() -> None:
    assert not alarm_with(used=0, held=2 * LIMIT).update(LIMIT)
    assert alarm_with(used=0, held=2 * LIMIT).update(LIMIT + 1)


def test_memory_is_tight_well_below_the_limit() -> None:
    alarm = alarm_with(used=500_000, held=200_000)
    assert not alarm.is_low(200_000)
    assert alarm.is_low(200_001)


def test_a_large_process_that_holds_few_messages_does_not_page() -> None:
    assert not alarm_with(used=3 * LIMIT, held=125_000).is_low(125_000)
    assert alarm_with(used=3 * LIMIT, held=125_001).is_low(125_001)


def test_a_ratio_above_one_leaves_paging_to_the_alarm() -> None:
    alarm = MemoryAlarm(2.0)
    alarm.measured(LIMIT, LIMIT, LIMIT)
    assert not alarm.is_low(LIMIT)


def test_too_little_free_space_raises_the_alarm_of_the_disk() -> None:
    alarm = DiskAlarm()
    assert not alarm.is_raised()
    alarm.measured(999, 1000)
    assert alarm.is_raised()
    alarm.measured(1000, 1000)
    assert not alarm.is_raised()


def test_a_write_that_finds_no_room_raises_it_until_one_does() -> None:
    alarm = DiskAlarm()
    alarm.measured(10**9, 1000)
    alarm.full("no space left on device")
    assert alarm.is_raised()
    alarm.full("")
    assert not alarm.is_raised()


def test_publishers_get_the_reason_of_the_alarm() -> None:
    assert reason_of(False, False) == ""
    assert reason_of(True, False) == "low on memory"
    assert reason_of(False, True) == "low on disk"
    assert reason_of(True, True) == "low on memory & disk"
