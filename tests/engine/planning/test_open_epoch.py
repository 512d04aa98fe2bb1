"""Chunks of an open epoch: the same answer as the whole epoch at once, and nothing taken of a chunk that is wrong."""

import threading

import numpy as np
import pytest

from engine import Application, Engine, Epoch, InputError, LimitError, Limits, int64, list_of, udf

ROWS = 600


@udf
def halved(event):
    return event.amount // 2


@udf
def is_small(event):
    return event.amount < 90


@udf
def add(record, event):
    record.total += event.half
    return record.total < 500


@udf
def add_each(record, event, amount):
    record.total += amount


def declare() -> Application:
    app = Application("chunks")
    app.event("Add", {"name": str, "amount": int64})
    app.event("Spread", {"names": list_of(str), "amounts": list_of(int64)})
    sums = app.table("sums", key=str, value={"total": int64}, create=True)

    @app.transaction("Add", derive={"half": halved}, filter=is_small)
    def _add(txn, event):
        txn.write(sums[event.name], add)

    @app.transaction("Spread")
    def _spread(txn, event):
        txn.write(sums[event.names], add_each, each=[event.amounts])

    return app


def columns(seed: int) -> dict[str, dict[str, object]]:
    chance = np.random.default_rng(seed)
    ts, seq = np.sort(chance.integers(0, 50, 2 * ROWS)), chance.permutation(2 * ROWS)
    lists = [[f"k{k}" for k in chance.integers(0, 20, chance.integers(0, 4))] for _ in range(ROWS)]
    return {
        "Add": {
            "ts": ts[:ROWS],
            "seq": seq[:ROWS],
            "name": [f"k{k}" for k in chance.integers(0, 20, ROWS)],
            "amount": chance.integers(0, 100, ROWS),
        },
        "Spread": {
            "ts": ts[ROWS:],
            "seq": seq[ROWS:],
            "names": lists,
            "amounts": [list(range(len(names))) for names in lists],
        },
    }


def rows_of(given: dict[str, object], begin: int, end: int) -> dict[str, object]:
    return {name: column[begin:end] for name, column in given.items()}  # type: ignore[index]


@pytest.mark.parametrize("policy", ["serial", "unstructured/fine/eager", "breadth-first/coarse/lazy"])
def test_chunks_in_any_order_give_what_the_whole_epoch_gives(policy: str) -> None:
    app = declare()
    with Engine(app, threads=2, policy=policy) as whole, Engine(app, threads=2, policy=policy) as chunked:
        for number in range(3):
            given = columns(seed=number)
            for batch in given.values():
                batch["ts"] = batch["ts"] + 100 * number  # type: ignore[operator]
            expected = whole.run_epoch(Epoch(number, 100 * number + 99, given))
            opened = chunked.open_epoch(number)
            cuts = [(kind, begin) for kind in given for begin in range(0, ROWS, 97)]
            for kind, begin in reversed(cuts):
                opened.add(kind, rows_of(given[kind], begin, begin + 97))
            assert opened.events == 2 * ROWS
            found = chunked.run_epoch(opened.close(100 * number + 99))
            assert found.outcomes() == expected.outcomes()
            assert {outcome.verdict for outcome in found.outcomes()} == {"committed", "failed", "filtered"}
        assert chunked.snapshot() == whole.snapshot()


def test_a_wrong_chunk_is_not_taken_and_the_epoch_goes_on() -> None:
    with Engine(declare(), threads=1) as engine:
        opened = engine.open_epoch(0)
        opened.add("Add", {"ts": [1], "seq": [0], "name": ["a"], "amount": [10]})
        wrong = [
            ("Add", {"ts": [1], "seq": [1], "name": ["a"]}, "column 'amount'"),
            ("Add", {"ts": [1], "name": ["a"], "amount": [1]}, "column 'seq' is missing"),
            ("Spread", {"ts": [1], "seq": [1], "names": [["a"]], "amounts": [[1, 2]]}, "has 2 elements"),
            ("Nobody", {"ts": [1], "seq": [1]}, "triggers no transaction"),
        ]
        for record_type, chunk, message in wrong:
            with pytest.raises(InputError, match=message):
                opened.add(record_type, chunk)
        assert opened.events == 1
        opened.add("Add", {"ts": [2], "seq": [1], "name": ["a"], "amount": [20]})
        assert engine.run_epoch(opened.close(5)).committed == 2
        assert engine.state("sums") == {"a": {"total": 15}}


def test_an_event_twice_in_two_chunks_is_refused_at_the_punctuation() -> None:
    with Engine(declare(), threads=1) as engine:
        opened = engine.open_epoch(0)
        for _ in range(2):
            opened.add("Add", {"ts": [1], "seq": [0], "name": ["a"], "amount": [10]})
        with pytest.raises(InputError, match="source 0 has event 0 twice"):
            engine.run_epoch(opened.close(5))
        assert engine.state("sums") == {}


def test_limits_and_a_closed_epoch() -> None:
    with Engine(declare(), threads=1, limits=Limits(events=2)) as engine:
        opened = engine.open_epoch(0)
        with pytest.raises(LimitError, match="has 3 events, the limit is 2"):
            opened.add("Add", {"ts": [1] * 3, "seq": [0, 1, 2], "name": ["a"] * 3, "amount": [1] * 3})
        opened.close(5)
        with pytest.raises(InputError, match="epoch 0 is closed"):
            opened.add("Add", {"ts": [1], "seq": [0], "name": ["a"], "amount": [1]})
        with pytest.raises(InputError, match="an epoch's number"):
            engine.open_epoch(-1)


def test_chunks_arrive_while_an_earlier_epoch_runs() -> None:
    """Another thread adds the next epoch's chunks; both epochs come out as if one after another."""
    app = declare()
    with Engine(app, threads=2, policy="unstructured/fine/eager") as engine, Engine(app, threads=1) as alone:
        epochs = [columns(seed) for seed in range(6)]
        opened = engine.open_epoch(0)
        for kind, batch in epochs[0].items():
            opened.add(kind, batch)
        for number in range(6):
            closed = opened.close(100 * number + 99)
            following = engine.open_epoch(number + 1)

            def arrive(target=following, at=number + 1) -> None:
                for kind, batch in epochs[at % 6].items():
                    for begin in range(0, ROWS, 50):
                        chunk = rows_of(batch, begin, begin + 50)
                        target.add(kind, chunk | {"ts": np.asarray(chunk["ts"]) + 100 * at})

            thread = threading.Thread(target=arrive)
            thread.start()
            engine.run_epoch(closed)
            thread.join()
            opened = following
        for number, given in enumerate(epochs):
            whole = alone.open_epoch(number)
            for kind, batch in given.items():
                whole.add(kind, batch | {"ts": np.asarray(batch["ts"]) + 100 * number})
            alone.run_epoch(whole.close(100 * number + 99))
        assert engine.snapshot() == alone.snapshot()
