"""An input stands still if what was there a while ago still has not come; an input that has ended does not."""

from services.engine.standstill import GRACE_S, PATIENCE_MAX_S, QUIET_S, Standstill


def test_it_asks_after_a_while_without_a_sign_of_life():
    standstill = Standstill(0.0)
    assert not standstill.asks(QUIET_S - 0.1)
    assert standstill.asks(QUIET_S)
    standstill.came(QUIET_S)
    assert not standstill.asks(2 * QUIET_S - 0.1)


def test_what_lies_before_the_end_and_does_not_come_is_a_standstill():
    standstill = Standstill(0.0)
    standstill.told({0: 10, 1: 5}, QUIET_S)
    assert not standstill.stands({0: 9, 1: 5}, QUIET_S + GRACE_S - 0.1), "it may have just arrived"
    assert standstill.stands({0: 9, 1: 5}, QUIET_S + GRACE_S)
    assert not standstill.stands({0: 9, 1: 5}, QUIET_S + 2 * GRACE_S), "said once"


def test_an_input_at_its_end_is_asked_again_and_again_and_never_stands():
    standstill, now_s = Standstill(0.0), 0.0
    for _ in range(5):
        now_s += QUIET_S
        assert standstill.asks(now_s)
        standstill.told({0: 10, 1: 5}, now_s)
        now_s += GRACE_S
        assert not standstill.stands({0: 10, 1: 5}, now_s)


def test_partitions_that_are_not_read_do_not_count():
    standstill = Standstill(0.0)
    standstill.told({0: 10, 1: 5}, QUIET_S)
    assert not standstill.stands({1: 5}, QUIET_S + GRACE_S)


def test_a_sign_of_life_after_the_question_ends_the_suspicion():
    standstill = Standstill(0.0)
    standstill.told({0: 10}, QUIET_S)
    standstill.came(QUIET_S + 1)
    assert not standstill.stands({0: 9}, QUIET_S + GRACE_S + 1)


def test_who_does_not_answer_is_asked_again_after_the_patience():
    standstill = Standstill(0.0)
    standstill.told({}, QUIET_S)
    assert not standstill.stands({0: 9}, QUIET_S + GRACE_S)
    assert not standstill.asks(QUIET_S + 0.1)
    assert standstill.asks(2 * QUIET_S)


def test_each_standstill_in_vain_doubles_the_patience_until_something_comes():
    standstill, now_s, waits = Standstill(0.0), 0.0, []
    for _ in range(6):
        began_s = now_s
        while not standstill.asks(now_s):
            now_s += 1.0
        waits.append(now_s - began_s)
        standstill.told({0: 10}, now_s)
        now_s += GRACE_S
        assert standstill.stands({0: 9}, now_s)
    assert waits == [10.0, 20.0, 40.0, 80.0, PATIENCE_MAX_S, PATIENCE_MAX_S]
    standstill.came(now_s)
    assert standstill.asks(now_s + QUIET_S)
