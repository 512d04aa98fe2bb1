"""The examples of design.md and of the MorphStream paper, under every policy: verdicts, state, edges and exact transitions."""

import pytest

from engine import ExecutionOptions, Policy, Reason
from tests.contract.applications import ledger
from tests.contract.registers import pair, registers, values, verdicts


def of_operation(trace, operation):
    return [transition for number, transition in trace if number == operation]


def test_a_failure_that_read_a_withdrawn_version_is_taken_back(drive):
    """design.md section 3: x = 0; transaction 1 sets x = 10 and fails on y; 2 fails if x > 5: serially 2 commits."""
    driver = drive(registers)
    pair(driver, 1, "x", "y", fails="y")
    driver.send("Guard", ts=2, key="x", limit=5)
    result = driver.punctuate()

    assert verdicts(result) == ["failed", "committed"]
    assert values(driver) == {"x": 1}
    failure = result.outcomes()[0]
    assert (failure.reason, failure.statement, failure.key) == (Reason.REFUSED, 1, "y")
    if drive.is_lazy:
        assert result.counters["T7"] > 0


def test_every_second_failure_of_a_cascade_is_taken_back(drive):
    """Each relay fails if the one before it committed; only round by round does the whole chain become known."""
    driver = drive(registers)
    pair(driver, 1, "r0", "y", fails="y")
    for number in range(6):
        driver.send("Relay", ts=2 + number, origin=f"r{number}", target=f"r{number + 1}", limit=5)
    result = driver.punctuate()

    assert verdicts(result) == ["failed", *["committed", "failed"] * 3]
    assert values(driver) == {"r1": 10, "r3": 10, "r5": 10}
    if drive.is_lazy:
        assert result.counters["rounds"] >= 3
        assert result.counters["T7"] >= 3
        assert result.counters["cascade_depth_max"] >= 3


def figure_9(driver):
    """O1 and O2 are one transaction's, O3 reads what O2 wrote; O1 fails."""
    driver.load("registers", {"c": {"value": 1}})
    pair(driver, 1, "a", "b", fails="a")
    driver.send("Add", ts=2, origin="b", target="c")
    return driver.punctuate()


def test_figure_9_outcome(drive):
    driver = drive(registers)
    assert verdicts(figure_9(driver)) == ["failed", "committed"]
    assert values(driver) == {"c": 1}


def test_figure_9_transitions_of_each_operation(drive):
    trace = figure_9(drive(registers, options=ExecutionOptions(trace=100))).trace
    if drive.policy.is_serial:
        assert trace == []  # nothing is ever provisional
        return
    assert of_operation(trace, 0) == ["T1", "T4"]
    if drive.is_lazy:
        assert of_operation(trace, 1) == ["T1", "T2", "T4"]
        assert of_operation(trace, 2) in (["T1", "T2", "T5", "T2"], ["T3", "T5", "T2"])
    else:  # O2 may learn of the failure before it runs, and O3 may run after it
        assert of_operation(trace, 1) in (["T1", "T2", "T4"], ["T1", "T4"], ["T4"])
        assert of_operation(trace, 2)[-1] in ("T2", "T3")


@pytest.mark.parametrize("exploration", ["breadth-first", "depth-first"])
def test_figure_9_transitions_in_order_lazily(open_driver, exploration):
    driver = open_driver(registers, threads=1, policy=f"{exploration}/fine/lazy", options=ExecutionOptions(trace=100))
    # "O2 transitions to ABT … O3 must rollback from EXE to RDY … redo from O3" (section 6.4)
    assert figure_9(driver).trace == [
        (0, "T1"), (0, "T4"), (1, "T1"), (1, "T2"), (2, "T1"), (2, "T2"),
        (1, "T4"), (2, "T5"),
        (2, "T2"),
    ]  # fmt: skip


def test_figure_9_transitions_in_order_eagerly(open_driver):
    driver = open_driver(registers, threads=1, policy="breadth-first/fine/eager", options=ExecutionOptions(trace=100))
    # The stratum of O1 and O2 is settled before O3 is explored, so O3 has nothing to roll back.
    assert figure_9(driver).trace == [
        (0, "T1"), (0, "T4"), (1, "T1"), (1, "T2"),
        (1, "T4"),
        (2, "T1"), (2, "T2"),
    ]  # fmt: skip


def test_what_follows_a_rolled_back_operation_is_blocked_again(open_driver):
    """O4 depends on O3, which is rolled back: T6, then T1 once O3 has run again."""
    driver = open_driver(registers, threads=1, policy="breadth-first/fine/lazy", options=ExecutionOptions(trace=100))
    pair(driver, 1, "a", "b", fails="a")
    driver.send("Add", ts=2, origin="b", target="c")
    driver.send("Add", ts=3, origin="c", target="d")
    trace = driver.punctuate().trace
    assert of_operation(trace, 2) == ["T1", "T2", "T5", "T2"]
    assert of_operation(trace, 3) == ["T1", "T2", "T6", "T1", "T2"]


def test_the_edges_of_figures_1_and_3(open_driver):
    """Deposit to A; transfer A→B; transfer B→A: TD O1→O2→O5, O3→O4; PD O1→O3, O3→O5 (here from 0: O1 is 0)."""
    seen = []

    def choose(operations, graph):
        seen.append((operations, graph().edge_set(), graph().logical_dependencies))
        return [(Policy(), None)]

    driver = open_driver(ledger, policy=choose)
    driver.load("accounts", {0: {"balance": 50}, 1: {"balance": 50}, 2: {"balance": 50}})
    # A deposit as a transfer from a third account, whose own operation (number 0) touches nothing else.
    driver.send("Transfer", ts=1, sender=2, receiver=0, amount=5)
    driver.send("Transfer", ts=2, sender=0, receiver=1, amount=5)
    driver.send("Transfer", ts=3, sender=1, receiver=0, amount=5)
    driver.punctuate()
    temporal = {(1, 2, "TD"), (2, 5, "TD"), (3, 4, "TD")}
    parametric = {(1, 3, "PD"), (3, 5, "PD")}
    assert seen == [(6, temporal | parametric, 3)]


def test_the_second_write_of_a_key_continues_the_first(drive):
    """Within a transaction writes pile up, while reads see the state before it."""
    driver = drive(registers)
    driver.load("registers", {"k": {"value": 3}})
    driver.send("Twist", ts=1, key="k", amount=1)
    driver.send("Twist", ts=2, key="k", amount=10)
    result = driver.punctuate()
    # 3 + 1 = 4, doubled 8, plus the 3 from before: 11. Then 11 + 10 = 21, 42, plus 11: 53.
    assert [outcome.output for outcome in result.outcomes()] == [
        {"before": 3, "after": 11},
        {"before": 11, "after": 53},
    ]
    assert values(driver) == {"k": 53}


def test_events_take_effect_by_time_not_by_arrival(drive):
    driver = drive(registers)
    driver.send("Add", ts=30, origin="b", target="c")
    driver.send("Add", ts=20, source=1, origin="a", target="b")
    driver.send("Guard", ts=10, source=2, key="a", limit=5)
    driver.send("Guard", ts=10, source=0, key="a", limit=0)
    driver.send("Guard", ts=10, source=0, key="a", limit=0)
    result = driver.punctuate()
    order = [(outcome.ts, outcome.source, outcome.seq, outcome.verdict) for outcome in result.outcomes()]
    assert order == [
        (10, 0, 1, "committed"),
        (10, 0, 2, "failed"),
        (10, 2, 0, "committed"),
        (20, 1, 0, "committed"),
        (30, 0, 0, "committed"),
    ]
    assert values(driver) == {"a": 2, "b": 2, "c": 2}


def test_all_events_on_one_key(drive):
    driver = drive(registers)
    for ts in range(300):
        driver.send("Guard", ts=ts, key="hot", limit=199)
    result = driver.punctuate()
    assert verdicts(result) == ["committed"] * 200 + ["failed"] * 100
    assert values(driver) == {"hot": 200}


def test_empty_epochs(drive):
    driver = drive(registers)
    assert driver.punctuate(5).outcomes() == []
    before = driver.engine.snapshot()
    driver.send("Guard", ts=7, key="a", limit=0)
    driver.punctuate(10)
    assert driver.punctuate(10).outcomes() == []
    assert driver.punctuate(20).counters["operations"] == 0
    driver.send("Guard", ts=21, key="a", limit=0)
    assert verdicts(driver.punctuate()) == ["failed"]
    assert values(driver) == {"a": 1}
    assert driver.engine.snapshot() != before


def test_a_failing_transaction_leaves_no_new_key(drive):
    driver = drive(registers)
    pair(driver, 1, "new", "other", fails="other")
    pair(driver, 2, "kept", "too")
    pair(driver, 3, "late", "new", fails="late")
    assert verdicts(driver.punctuate()) == ["failed", "committed", "failed"]
    assert values(driver) == {"kept": 10, "too": 10}
    assert driver.get("registers", "new") is None


def test_the_first_failure_in_statement_order_is_reported(drive):
    driver = drive(registers)
    pair(driver, 1, "b", "a", fails="ab")
    (outcome,) = driver.punctuate().outcomes()
    assert (outcome.statement, outcome.key, outcome.reason) == (0, "b", Reason.REFUSED)
