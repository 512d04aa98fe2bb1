"""`millrace explain`: what it prints, what it draws, and that pictures are well-formed and complete."""

import json
from xml.etree import ElementTree

import pytest

from engine.execution.layout import RUNNING_SERIALLY, SETTLING, WAITING
from engine.result import Moment
from services.cli import main
from services.timeline import draw_timeline, kinds_of
from services.workload_catalogue import WORKLOADS

SVG = "{http://www.w3.org/2000/svg}"


def explain(capsys, *arguments):
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def boxes(path):
    """Border colours and texts of a picture's boxes."""
    root = ElementTree.parse(path).getroot()
    return [r.get("stroke") for r in root.iter(f"{SVG}rect") if r.get("rx") == "6"], [
        t.text for t in root.iter(f"{SVG}text")
    ]


def test_text_names_everything(capsys, tmp_path):
    out = explain(
        capsys, "--app", "dynamic-ledger", "--policy", "paper", "--epochs", "4", "--events", "300", "--threads", "2",
        "--svg", str(tmp_path / "graph.svg"),
    )  # fmt: skip
    for part in (
        "epoch 3:", "paper chose", "degree skew", "measured afterwards", "useful", "explore", "sync", "counters",
        "operations by thread", "graph.svg", "graph-timeline.svg",
    ):  # fmt: skip
        assert part in out


def test_json_has_the_numbers(capsys):
    told = json.loads(explain(capsys, "--app", "nested-tolls", "--policy", "paper", "--epochs", "3", "--events", "2_000",
                              "--epoch", "2", "--threads", "2", "--json"))  # fmt: skip
    assert told["epoch"] == 2
    [choice] = told["choices"]
    assert [each["policy"] for each in choice["chosen"]] == ["breadth-first/coarse/eager", "unstructured/coarse/lazy"]
    assert set(choice["properties"]) == {"group 0", "group 1"}
    assert told["committed"] + told["failed"] == 2_000
    assert told["measured"][0]["transactions"] == 2_000
    assert told["measured"][0]["abort_ratio"] == pytest.approx(told["failed"] / 2_000)
    assert told["times_ms"]["useful"] > 0
    assert sum(told["operations_per_thread"]) == told["counters"]["operations"]


@pytest.mark.parametrize(
    ("colour", "policy"), [("state", "unstructured/fine/lazy"), ("thread", "depth-first/coarse/eager")]
)
def test_the_graph_is_drawn_and_coloured(capsys, tmp_path, colour, policy):
    path = tmp_path / "pictures" / "graph.svg"
    out = explain(capsys, "--app", "toll-processing", "--events", "40", "--epochs", "2", "--threads", "2", "--seed", "3",
                  "--policy", policy, "--colour", colour, "--svg", str(path))  # fmt: skip
    borders, texts = boxes(path)
    assert 0 < len(borders) <= 60
    assert str(len(borders)) in out
    expected = {"executed", "aborted"} if colour == "state" else {"thread 0", "thread 1"}
    assert expected & set(texts)
    assert any("average_in speeds[" in text for text in texts if text)
    timeline = ElementTree.parse(tmp_path / "pictures" / "graph-timeline.svg").getroot()
    assert [t.text for t in timeline.iter(f"{SVG}text") if (t.text or "").startswith("thread")] == [
        "thread 0",
        "thread 1",
    ]


def test_a_large_epoch_is_drawn_in_part_and_says_so(capsys, tmp_path):
    path = tmp_path / "graph.svg"
    explain(capsys, "--events", "500", "--epochs", "1", "--threads", "2", "--policy", "serial", "--svg", str(path))
    borders, texts = boxes(path)
    assert len(borders) == 60
    assert any("the first 60 of the" in (text or "") for text in texts)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_runs(capsys, name):
    out = explain(capsys, "--app", name, "--epochs", "2", "--events", "100", "--threads", "2")
    assert "cost chose serial" in out


def test_mistakes_are_one_sentence(capsys):
    for arguments in (["--app", "nothing"], ["--app", "no.module:f"], ["--epoch", "9"], ["--policy", "best"]):
        assert main(["explain", *arguments]) == 2
        assert capsys.readouterr().err.startswith("millrace: ")


def test_an_application_of_ones_own(capsys):
    out = explain(capsys, "--app", "tests.services.test_explain:own", "--epochs", "2", "--events", "50")
    assert "50 committed" in out


def own(events, epochs, seed):
    from services.apps import streaming_ledger, workloads
    from services.apps.workloads import Parameters

    parameters = Parameters(transactions=events, states=50, abort_share=0.0)
    balances = {"balance": [1_000] * 50}
    tables = {name: (list(range(50)), balances) for name in ("accounts", "assets")}
    return streaming_ledger.build(), workloads.streaming_ledger(parameters, epochs, seed), tables


def test_kinds_of_moments():
    moments = [Moment(0, 7, 0, 1), Moment(1, WAITING, 0, 1), Moment(0, SETTLING, 1, 2), Moment(1, 7, 2, 3),
               Moment(0, RUNNING_SERIALLY, 3, 4)]  # fmt: skip
    assert kinds_of(moments) == ["operation", "waiting for others", "settling aborts", "run again", "run serially"]


def test_moments_shorter_than_a_pixel_become_one_bar():
    moments = [Moment(0, number, number * 1e-6, (number + 1) * 1e-6) for number in range(100_000)]
    root = ElementTree.fromstring(draw_timeline(moments, 1, "many"))
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.get("fill") == "#4c9f70"]
    assert len(bars) == 2  # the bar and the legend's square
    assert float(bars[0].get("width")) > 1_000
