"""Grep and Sum, plain, windowed and with computed keys, against dictionaries and lists of versions."""

import pytest

from engine import Reason
from services.apps import grep_sum, workloads
from services.apps.workloads import Parameters
from tests.services.apps.playing import Verdict, play, rows_of, verdicts

STATES = 30
PARAMETERS = Parameters(theta=0.6, abort_share=0.2, transactions=150, states=STATES, reads=3, sources=2, disorder=0.3)
LARGEST = 2**63 - 1


def start_values():
    return {key: 100 * key + 7 for key in range(STATES)}


def start_table():
    return {"records": {key: {"value": value} for key, value in start_values().items()}}


def sum_up(values, event, mean=True):
    """One `Sum` on a dictionary: the keys it wrote, or the failure."""
    fresh = dict(values)
    failure = (Reason.NONE, None)
    for key in event["keys"]:
        total = fresh[key] + sum(values[other] for other in event["others"])
        fresh[key] = total // (len(event["others"]) + 1) if mean else total
        if failure[0] == Reason.NONE:
            if total > LARGEST:
                failure = (Reason.OVERFLOW, key)
            elif not event["allowed"]:
                failure = (Reason.REFUSED, key)
    if failure[0] == Reason.NONE:
        values.update(fresh)
    return failure


def check(app, epochs, values, expected):
    driver, outcomes = play(app, epochs, start_table())
    assert verdicts(outcome for epoch in outcomes for outcome in epoch) == expected
    assert driver.state("records") == {key: {"value": value} for key, value in values.items()}


@pytest.mark.parametrize(("length", "reads"), [(1, 2), (1, 1), (4, 3), (10, 10)])
def test_plain(length, reads):
    parameters = Parameters(0.6, 0.2, length, 0.0, reads, 150, STATES, disorder=0.3, sources=2)
    epochs = list(workloads.grep_sum(parameters, epochs=2, seed=1, query_share=0.4))
    values, expected = start_values(), []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            if record_type == "Query":
                output = {"total": sum(values[key] for key in event["keys"])}
                expected.append(Verdict(record_type, ts, source, seq, output=output))
            else:
                expected.append(Verdict(record_type, ts, source, seq, *sum_up(values, event)))
    check(grep_sum.build(busy_iterations=2), epochs, values, expected)


def test_sums_of_sums_overflow_and_fail():
    parameters = Parameters(0.0, 0.0, 1, 0.0, 3, 600, 4)
    epochs = list(workloads.grep_sum(parameters, seed=1))
    values, expected = {key: 100 * key + 7 for key in range(4)}, []
    for record_type, ts, source, seq, event in rows_of(epochs[0]):
        expected.append(Verdict(record_type, ts, source, seq, *sum_up(values, event, mean=False)))
    assert Reason.OVERFLOW in {verdict.reason for verdict in expected}
    driver, outcomes = play(
        grep_sum.build(mean=False), epochs, {"records": {key: {"value": 100 * key + 7} for key in range(4)}}
    )
    assert verdicts(outcomes[0]) == expected
    assert driver.state("records") == {key: {"value": value} for key, value in values.items()}


@pytest.mark.parametrize("window", [0, 40, 1_000])
def test_windowed(window):
    epochs = list(workloads.windowed_grep_sum(PARAMETERS, epochs=3, seed=2, period=10, keys_read=12))
    values, versions, expected = start_values(), [], []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            if record_type == "Sum":
                failure = sum_up(values, event)
                if failure[0] == Reason.NONE:
                    versions += [(ts, key, values[key]) for key in event["keys"]]
                expected.append(Verdict(record_type, ts, source, seq, *failure))
            else:
                total = sum(
                    value
                    for asked in event["keys"]
                    for written, key, value in versions
                    if key == asked and written >= ts - window
                )
                expected.append(Verdict(record_type, ts, source, seq, output={"total": total}))
    check(grep_sum.build_windowed(window=window), epochs, values, expected)


def splitmix(number):
    mask = 2**64 - 1
    number = (number + 0x9E3779B97F4A7C15) & mask
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & mask
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & mask
    return number ^ (number >> 31)


def random_of(source, epoch, seq):
    """The random number of an event, which its identity alone determines."""
    mask = 2**64 - 1
    return splitmix((splitmix((splitmix(source) + epoch) & mask) + seq) & mask) >> 1


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_computed_keys(share):
    epochs = list(workloads.computed_grep_sum(PARAMETERS, epochs=2, seed=3, computed_share=share))
    values, expected = start_values(), []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            if record_type == "Sum":
                failure = sum_up(values, event)
            else:
                read = values[event["read_seed"]] % STATES
                written = (values[event["write_seed"]] + random_of(source, epoch.number, seq)) % STATES
                failure = (Reason.NONE, None) if event["allowed"] else (Reason.REFUSED, written)
                if event["allowed"]:
                    values[written] = (values[written] + values[read]) // 2
            expected.append(Verdict(record_type, ts, source, seq, *failure))
    check(grep_sum.build_computed(states=STATES), epochs, values, expected)
