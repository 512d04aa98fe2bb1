"""Online bidding against a dictionary of items."""

from engine import Reason, TestDriver
from services.apps import online_bidding, workloads
from services.apps.workloads import Parameters
from tests.services.apps.playing import Verdict, play, rows_of, verdicts

PARAMETERS = Parameters(theta=0.6, abort_share=0.1, length=20, transactions=300, states=40, sources=2, disorder=0.3)


def start_items():
    return {key: {"price": 50, "quantity": 4} for key in range(40)}


def test_bids_alters_and_tops():
    epochs = list(workloads.online_bidding(PARAMETERS, epochs=2, seed=7))
    items, expected = start_items(), []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            reason, key = Reason.NONE, None
            if record_type == "Bid":
                item = items[event["item"]]
                if event["price"] < item["price"] or event["quantity"] > item["quantity"]:
                    reason, key = Reason.REFUSED, event["item"]
                else:
                    item["quantity"] -= event["quantity"]
            elif record_type == "Alter":
                for place, price in zip(event["items"], event["prices"], strict=True):
                    items[place]["price"] = price
            else:
                for place, quantity in zip(event["items"], event["quantities"], strict=True):
                    items[place]["quantity"] += quantity
            expected.append(Verdict(record_type, ts, source, seq, reason, key))
    refused = sum(verdict.reason == Reason.REFUSED for verdict in expected)
    assert 20 < refused < len(expected) - 20

    driver, outcomes = play(online_bidding.build(busy_iterations=1), epochs, {"items": start_items()})
    assert verdicts(outcome for epoch in outcomes for outcome in epoch) == expected
    assert driver.state("items") == items


def test_one_unknown_item_fails_the_whole_list():
    driver = TestDriver(online_bidding.build())
    driver.load("items", start_items())
    driver.send("Top", ts=1, source=0, items=[1, 99, 2], quantities=[5, 5, 5])
    driver.send("Alter", ts=2, source=0, items=[3, 4], prices=[8, 9])
    first, second = driver.punctuate(2).outcomes()
    assert (first.verdict, first.reason, first.key) == ("failed", Reason.UNKNOWN_KEY, 99)
    assert second.verdict == "committed"
    expected = start_items()
    expected[3]["price"], expected[4]["price"] = 8, 9
    assert driver.state("items") == expected
