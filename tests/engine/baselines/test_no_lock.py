"""No-Lock is wrong on purpose: it must not break anything, and it must really keep no order."""

import pytest

from engine import Engine, ExecutionOptions, TestDriver
from services.verify import comparison
from services.verify.generator import generate_application
from services.verify.handmade import HANDMADE
from services.verify.streams import generate_epochs
from tests.contract.busy_cells import SHORT, cells, send_step

EVENTS = 60
TRIES = 5


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("number", range(len(HANDMADE)), ids=[declare.__name__ for declare in HANDMADE])
def test_nothing_breaks_and_nothing_is_lost(number, threads):
    app, _ = generate_application(number)
    for stream_seed in range(3):
        stream = generate_epochs(app, stream_seed, hot=True)
        options = ExecutionOptions(delay_seed=stream_seed + 1)
        with Engine(app, threads=threads, policy="no-lock", options=options) as engine:
            comparison.load(engine, stream)
            for epoch in stream.epochs:
                result = engine.run_epoch(comparison.columns_of(app, epoch))
                sent = {(ts, source, seq) for _, ts, source, seq, _ in epoch.events}
                outcomes = result.outcomes()
                assert sent <= {(o.ts, o.source, o.seq) for o in outcomes}, f"stream seed {stream_seed}"
            restored = Engine.restore(app, engine.snapshot())
            assert all(restored.state(table) == engine.state(table) for table in app.tables)
            restored.close()


def count_up(policy):
    """One key, increased by one in every transaction, each taking a while."""
    driver = TestDriver(cells, policy=policy, threads=2)
    driver.load("cells", {0: {"value": 0}})
    for ts in range(EVENTS):
        send_step(driver, ts, 0, loops=SHORT)
    result = driver.punctuate()
    driver.close()
    assert all(outcome.verdict == "committed" for outcome in result.outcomes())
    return result, driver.state("cells")[0]["value"]


def test_a_hot_key_loses_updates():
    for _ in range(TRIES):  # both threads must really run at once
        result, value = count_up("no-lock")
        if value < EVENTS:
            break
    assert value < EVENTS
    assert (result.counters["waits"], result.counters["barriers"]) == (0, 0)
    assert result.operations_per_thread == [EVENTS // 2] * 2


def test_an_exact_baseline_loses_none():
    assert count_up("lock")[1] == EVENTS
