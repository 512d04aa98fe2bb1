"""Data files: what is written is read back, half-written cells are dropped, and spreads are what they say."""

from pathlib import Path

import pytest

from bench import data
from bench.data import Data, Row, Spread, Writer

COLUMNS = ["repeat", "policy", "theta", "line", "lines", "speed", "answer"]


def row(repeat: int, policy: str, line: int, lines: int, speed: float) -> Row:
    return {
        "repeat": repeat, "policy": policy, "theta": 0.2, "line": line, "lines": lines, "speed": speed, "answer": "12e4",
    }  # fmt: skip


def test_spread_is_median_quartiles_and_ends() -> None:
    found = Spread.of([9.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.median, found.low_quartile, found.high_quartile) == (3.0, 2.0, 4.0)
    assert (found.minimum, found.maximum, found.count) == (1.0, 9.0, 5)


def test_a_spread_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        Spread.of([])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.12345, "0.123"), (999.4, "999"), (1234.5, "1,230"), (-41_383_210.0, "-41,400,000")],
)
def test_readable_numbers_have_three_digits(value: float, text: str) -> None:
    assert data.readable(value) == text


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "new" / "speed.csv", COLUMNS)
    writer.start({"seed": "1", "cpu": "a: b"}, [row(1, "serial", 1, 1, 5.0)])
    writer.append([row(1, "lock", 1, 2, 6.0), row(1, "lock", 2, 2, 7.5)])
    header, rows = data.read(writer.path)
    assert header == {"seed": "1", "cpu": "a: b"}
    assert rows == [row(1, "serial", 1, 1, 5.0), row(1, "lock", 1, 2, 6.0), row(1, "lock", 2, 2, 7.5)]


def test_a_hash_that_looks_like_a_number_stays_a_word(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "speed.csv", COLUMNS)
    writer.start({}, [row(1, "serial", 1, 1, 5.0)])
    assert data.read(writer.path)[1][0]["answer"] == "12e4"


def test_a_cell_that_lacks_lines_is_dropped(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "speed.csv", COLUMNS)
    writer.start({}, [row(1, "serial", 1, 1, 5.0), row(1, "lock", 1, 2, 6.0)])
    with writer.path.open("a", encoding="utf-8") as file:
        file.write("2,serial,0.2,1")  # the process was killed here
    _, rows = data.read(writer.path)
    assert data.complete(rows, ("policy", "theta")) == [row(1, "serial", 1, 1, 5.0)]


def test_spread_is_over_repeats_and_averages_lines() -> None:
    rows = [row(repeat, "serial", line, 2, 10.0 * repeat + line) for repeat in (1, 2, 3) for line in (1, 2)]
    found = Data({}, ("policy", "theta"), rows).spread("speed", ("policy",))
    assert found[("serial",)] == Spread(21.5, 16.5, 26.5, 11.5, 31.5, 3)


def test_where_takes_values_and_choices() -> None:
    found = Data({}, ("policy",), [row(1, name, 1, 1, 1.0) for name in ("a", "b", "c")])
    assert found.where(policy="b").distinct("policy") == ["b"]
    assert found.where(policy=("a", "c")).distinct("policy") == ["a", "c"]
