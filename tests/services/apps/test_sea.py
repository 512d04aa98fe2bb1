"""The window join of quotes and trades against a nested loop over all tuples."""

import pytest

from engine import Reason
from engine.errors import InputError
from services.apps import market, sea
from tests.services.apps.playing import Verdict, play, rows_of, verdicts


@pytest.mark.parametrize("window", [0, 50, 10_000])
def test_matches_and_turnover_are_those_of_a_nested_loop(window):
    epochs = list(market.generate(400, stocks=8, seed=9).epochs(span=120))
    assert len(epochs) > 3
    tuples = {"Quote": [], "Trade": []}
    expected = []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            stock, quantity = event["stock"], event["quantity"]
            in_window = {
                kind: [each["quantity"] for when, each in found if each["stock"] == stock and when >= ts - window]
                for kind, found in tuples.items()
            }
            matches = len(in_window["Trade" if record_type == "Quote" else "Quote"])
            in_window[record_type].append(quantity)
            quoted, traded = sum(in_window["Quote"]), sum(in_window["Trade"])
            turnover = traded / quoted if quoted > 0 else 0.0
            output = {"matches": matches, "quoted": quoted, "traded": traded, "turnover": turnover}
            expected.append(Verdict(record_type, ts, source, seq, output=output))
            tuples[record_type].append((ts, event))

    driver, outcomes = play(sea.build(window), epochs)
    assert verdicts(outcome for epoch in outcomes for outcome in epoch) == expected
    last = {event["stock"]: {"quantity": event["quantity"], "price": event["price"]} for _, event in tuples["Trade"]}
    assert driver.state("trades") == last


def test_a_tuple_without_quantity_is_refused_and_matches_nothing():
    quotes = {"ts": [1, 2], "stock": ["a", "a"], "quantity": [0, 10], "price": [1.0, 1.0]}
    trades = {"ts": [3], "stock": ["a"], "quantity": [5], "price": [1.0]}
    _, outcomes = play(sea.build(), made_market(quotes, trades).epochs(span=10))
    refused, _, trade = verdicts(outcomes[0])
    assert (refused.reason, refused.key) == (Reason.REFUSED, "a")
    assert trade.output == {"matches": 1, "quoted": 10, "traded": 5, "turnover": 0.5}


def made_market(quotes, trades):
    return market.Market(
        *({name: market._column(column, None) for name, column in each.items()} for each in (quotes, trades))
    )


def test_csv_files_are_read(tmp_path):
    quotes, trades = tmp_path / "quotes.csv", tmp_path / "trades.csv"
    quotes.write_text("time,stock_id,price,quantity\n20,600001,9.5,300\n10,600000,7.25,100\n", encoding="utf-8")
    trades.write_text("quantity,price,stock_id,time\n50,7.5,600000,15\n", encoding="utf-8")
    (epoch,) = market.load(quotes, trades).epochs(span=1_000)
    assert [(row.record_type, row.ts, row.source, row.seq, row.fields) for row in rows_of(epoch)] == [
        ("Quote", 10, 0, 0, {"stock": "600000", "quantity": 100, "price": 7.25}),
        ("Trade", 15, 1, 0, {"stock": "600000", "quantity": 50, "price": 7.5}),
        ("Quote", 20, 0, 1, {"stock": "600001", "quantity": 300, "price": 9.5}),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("time,stock_id,price\n1,a,1.0\n", "has no column quantity"),
        ("time,stock_id,price,quantity\n1,a,1.0,many\n", r"quotes.csv:2: .*'many'"),
    ],
)
def test_a_bad_csv_file_is_refused_with_its_place(tmp_path, text, complaint):
    path = tmp_path / "quotes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=complaint):
        market.load(path, path)
