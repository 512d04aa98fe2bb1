"""Windows of every fold over many versions, against a list of versions that is walked each time, under every policy."""

import random

import pytest

from engine import Application, Reason, TestDriver, float64, int64, udf
from services.apps import grep_sum, workloads
from services.apps.workloads import Parameters

LARGEST = 2**63 - 1
WINDOW, SHORT = 60, 15
KEYS = 3


def declare() -> Application:
    """Writes, deletions and refusals of few keys; a query folds one key in every way, in two ranges."""
    app = Application("contract-windows")
    levels = app.table("levels", key=int, value={"value": int64, "share": float64})
    app.event("Write", {"key": int64, "value": int64, "share": float64, "allowed": int64})
    app.event("Drop", {"key": int64, "allowed": int64})
    app.event("Query", {"key": int64})

    @udf
    def set_level(level, event):
        level.value = event.value
        level.share = event.share

    @udf
    def refuse(level, event):
        level.value = event.value  # a second write of the same key: one version all the same
        return event.allowed != 0

    @udf
    def digest(state, level):
        state.hash = (state.hash * 31 + level.value % 1000) % 1_000_003

    @udf
    def show(output, event, count, total, least, greatest, mean, lowest, highest, part, hashed):
        output.count = count
        output.total = total
        output.least = least
        output.greatest = greatest
        output.mean = mean
        if lowest < 1e9:  # an infinity cannot be stored
            output.lowest = lowest
        if highest > -1e9:
            output.highest = highest
        output.part = part
        output.hash = hashed.hash

    @udf
    def allowed(event):
        return event.allowed != 0

    @app.transaction("Write")
    def write(txn, event):
        txn.write(levels[event.key], set_level)
        txn.write(levels[event.key], refuse)

    @app.transaction("Drop")
    def drop(txn, event):
        txn.delete(levels[event.key], when=allowed)

    fields = {"count": int64, "total": int64, "least": int64, "greatest": int64, "mean": float64, "lowest": float64,
              "highest": float64, "part": float64, "hash": int64}  # fmt: skip

    @app.transaction("Query", output=fields)
    def query(txn, event):
        key = levels[event.key]
        txn.output(show, reads=[
            txn.read(key.window(WINDOW, "count")),
            txn.read(key.window(WINDOW, "sum", field="value")),
            txn.read(key.window(SHORT, "min", field="value")),
            txn.read(key.window(WINDOW, "max", field="value")),
            txn.read(key.window(SHORT, "mean", field="value")),
            txn.read(key.window(WINDOW, "min", field="share")),
            txn.read(key.window(SHORT, "max", field="share")),
            txn.read(key.window(WINDOW, "sum", field="share")),
            txn.read(key.window(WINDOW, digest, into={"hash": int64})),
        ])  # fmt: skip

    return app


windows = declare()


def events_of(seed, epochs, count, whole):
    """(type, fields) in order, epoch by epoch; `whole` keeps sums away from rounding and overflow."""
    draw = random.Random(seed)
    for number in range(epochs):
        ts = sorted(number * 50 + draw.randrange(1, 51) for _ in range(count))
        rows = []
        for at in ts:
            key, allowed = draw.randrange(KEYS), int(draw.random() < 0.75)
            kind = draw.choices(("Write", "Drop", "Query"), (10, 1, 4))[0]
            fields = {"key": key}
            if kind != "Query":
                fields["allowed"] = allowed
            if kind == "Write":
                fields["value"] = draw.randrange(-1000, 1000)
                fields["share"] = float(draw.randrange(-5, 5)) * draw.choice((1, -1))  # 0.0 and -0.0 too
                if not whole and draw.random() < 0.3:
                    fields["value"] = draw.choice((LARGEST, -LARGEST, -LARGEST - 1))
                    fields["share"] = draw.random()
            rows.append((kind, at, fields))
        yield rows


def walked(versions, ts):
    """What a query at `ts` shows of one key's versions (ts, value, share), or the reason it fails."""
    wide = [version for version in versions if version[0] >= ts - WINDOW]
    short = [version for version in versions if version[0] >= ts - SHORT]
    sums = []
    for inside in (wide, short):
        total = 0
        for _, value, _ in inside:
            total += value
            if not -LARGEST - 1 <= total <= LARGEST:
                return Reason.OVERFLOW
        sums.append(total)
    part, digest = 0.0, 0
    for _, value, share in wide:
        part += share
        digest = (digest * 31 + value % 1000) % 1_000_003
    return {
        "count": len(wide),
        "total": sums[0],
        "least": min([LARGEST, *(value for _, value, _ in short)]),
        "greatest": max([-LARGEST - 1, *(value for _, value, _ in wide)]),
        "mean": sums[1] / len(short) if short else 0.0,
        "lowest": min((share for _, _, share in wide), default=0.0),
        "highest": max((share for _, _, share in short), default=0.0),
        "part": part,
        "hash": digest,
    }


def play(driver, seed, whole, epochs=4, count=90):
    """Runs the events; gives what queries showed and what they should have."""
    versions = {key: [] for key in range(KEYS)}
    found, expected = [], []
    for rows in events_of(seed, epochs, count, whole):
        for kind, ts, fields in rows:
            driver.send(kind, ts=ts, **fields)
            if kind == "Write" and fields["allowed"]:
                versions[fields["key"]].append((ts, fields["value"], fields["share"]))
            elif kind == "Query":
                expected.append(repr(walked(versions[fields["key"]], ts)))
        for outcome in driver.punctuate().outcomes():
            if outcome.record_type == "Query":
                found.append(repr(outcome.output if outcome.verdict == "committed" else outcome.reason))
    return found, expected


@pytest.mark.parametrize("whole", [True, False])
def test_every_fold_gives_what_walking_gives(drive, whole):
    found, expected = play(drive(windows), seed=7, whole=whole)
    assert found == expected
    if not whole:
        assert repr(Reason.OVERFLOW) in expected


def test_a_restored_engine_goes_on_the_same(open_driver):
    """Runs are made anew from the versions of a snapshot, and its bytes do not depend on when it was taken."""
    straight, restored = open_driver(windows), open_driver(windows)
    for number, rows in enumerate(events_of(3, 6, 60, whole=True)):
        for driver in (straight, restored):
            for kind, ts, fields in rows:
                driver.send(kind, ts=ts, **fields)
        outcomes = [driver.punctuate(number * 50 + 50).outcomes() for driver in (straight, restored)]
        assert outcomes[0] == outcomes[1]
        data = straight.engine.snapshot()
        assert restored.engine.snapshot() == data
        epoch, restored = restored.epoch, open_driver(windows)
        restored.engine.store.load_snapshot(data)
        restored.epoch = epoch


def folded(window, drive, **parameters):
    """How many versions a windowed Grep and Sum reads, over all epochs, and for how many window reads."""
    given = Parameters(theta=0.0, transactions=2_000, states=4, reads=1, **parameters)
    driver: TestDriver = drive(grep_sum.build_windowed(window=window))
    driver.load("records", {key: {"value": 1} for key in range(4)})
    total = 0
    for epoch in workloads.windowed_grep_sum(given, epochs=4, seed=4, period=20, keys_read=4):
        total += driver.engine.run_epoch(epoch).counters["versions_folded"]
    return total, 4 * 2_000 // 20 * 4


def test_reads_do_not_grow_with_the_window(drive):
    """A window of 4,000 holds about a thousand versions of each key: twenty times as many as one of 200."""
    small, reads = folded(200, drive)
    large, _ = folded(4_000, drive)
    assert small >= reads  # every window has versions
    assert large <= 2 * small
    assert large <= 30 * reads
