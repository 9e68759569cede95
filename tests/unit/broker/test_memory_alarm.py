"""When the alarm rises and when it is over: figures in, a reason or none out."""

from warren.broker.memory_alarm import LOW_ON_MEMORY, MemoryAlarm

LIMIT = 1_000_000


def alarm_with(used: int, held: int, limit: int = LIMIT) -> MemoryAlarm:
    alarm = MemoryAlarm()
    alarm.measured(used, limit, held)
    return alarm


def test_a_node_that_was_never_measured_is_not_alarmed() -> None:
    assert MemoryAlarm().alarm(10**15) == ""


def test_a_limit_of_nothing_is_no_limit() -> None:
    assert alarm_with(used=10**12, held=10**12, limit=0).alarm(10**12) == ""


def test_the_alarm_rises_above_the_limit_and_not_at_it() -> None:
    assert alarm_with(used=LIMIT, held=500_000).alarm(500_000) == ""
    assert alarm_with(used=LIMIT + 1, held=500_000).alarm(500_000) == LOW_ON_MEMORY


def test_what_came_since_the_measurement_counts() -> None:
    alarm = alarm_with(used=600_000, held=100_000)
    assert alarm.alarm(500_000) == ""
    assert alarm.alarm(500_001) == LOW_ON_MEMORY


def test_what_went_since_the_measurement_counts() -> None:
    alarm = alarm_with(used=LIMIT + 200_000, held=600_000)
    assert alarm.alarm(600_000) == LOW_ON_MEMORY
    assert alarm.alarm(300_000) == ""


def test_a_large_process_that_holds_few_messages_is_not_alarmed() -> None:
    assert alarm_with(used=3 * LIMIT, held=249_999).alarm(249_999) == ""
    assert alarm_with(used=3 * LIMIT, held=250_000).alarm(250_000) == LOW_ON_MEMORY


def test_a_limit_next_to_nothing_alarms_a_node_that_holds_nothing() -> None:
    assert alarm_with(used=1_000_000, held=0, limit=1).alarm(0) == LOW_ON_MEMORY


def test_an_alarm_is_over_only_a_twentieth_below_the_limit() -> None:
    alarm = alarm_with(used=600_000, held=0)
    assert alarm.alarm(400_001) == LOW_ON_MEMORY
    assert alarm.alarm(350_001) == LOW_ON_MEMORY
    assert alarm.alarm(350_000) == ""
    assert alarm.alarm(400_000) == ""


def test_an_alarm_that_few_messages_end_is_over_at_half_of_what_raised_it() -> None:
    alarm = alarm_with(used=3 * LIMIT, held=0)
    assert alarm.alarm(250_000) == LOW_ON_MEMORY
    assert alarm.alarm(125_000) == LOW_ON_MEMORY
    assert alarm.alarm(124_999) == ""
    assert alarm.alarm(249_999) == ""


def test_a_higher_limit_ends_the_alarm() -> None:
    alarm = alarm_with(used=2 * LIMIT, held=LIMIT)
    assert alarm.alarm(LIMIT) == LOW_ON_MEMORY
    alarm.measured(2 * LIMIT, 4 * LIMIT, LIMIT)
    assert alarm.alarm(LIMIT) == ""


def test_a_process_that_seems_smaller_than_its_messages_counts_its_messages() -> None:
    assert alarm_with(used=0, held=2 * LIMIT).alarm(LIMIT) == ""
    assert alarm_with(used=0, held=2 * LIMIT).alarm(LIMIT + 1) == LOW_ON_MEMORY
