"""What may be given as policy=, and that every epoch says how it was chosen and, if asked, what threads did when."""

from itertools import pairwise

import numpy as np
import pytest

from engine import DeclarationError, Engine, ExecutionOptions, Policy, all_policies
from engine.scheduling.choice import FromFunction
from engine.scheduling.chooser import make_chooser
from engine.scheduling.cost_model import CostModel
from engine.scheduling.paper_model import PaperModel
from services.apps import streaming_ledger
from services.apps import workloads as make
from services.apps.workloads import Parameters

STATES = 50
SMALL = Parameters(theta=0.6, abort_share=0.3, transactions=400, states=STATES, length=4)


def run(policy, epochs=1, threads=2, **options):
    with Engine(streaming_ledger.build(), threads=threads, policy=policy, **options) as engine:
        for table in ("accounts", "assets"):
            engine.load(table, list(range(STATES)), {"balance": np.full(STATES, 150)})
        return [engine.run_epoch(epoch) for epoch in make.streaming_ledger(SMALL, epochs, 1)]


def test_names_make_choosers():
    assert isinstance(make_chooser(None), CostModel)
    assert isinstance(make_chooser("cost"), CostModel)
    assert isinstance(make_chooser("paper"), PaperModel)
    assert make_chooser("paper") is not make_chooser("paper")  # one an engine: it keeps what it learns
    mine = PaperModel()
    assert make_chooser(mine) is mine
    for wrong in ("best", 7):
        with pytest.raises(DeclarationError):
            make_chooser(wrong)


@pytest.mark.parametrize("policy", ["serial", all_policies()[5], lambda operations, graph: [(Policy(), None)]])
def test_policies_and_functions_are_explained(policy):
    [result] = run(policy)
    [choice] = result.choices
    assert [name for name, _ in choice.chosen] == result.policies
    assert choice.observed_run_ms is not None and choice.observed_run_ms > 0
    assert choice.model in choice.text() and result.policies[0] in choice.text()


def test_a_function_still_gets_operations_and_the_graph():
    seen = []

    def choose(operations, graph):
        seen.append((operations, graph().operation_count))
        return [(Policy(), None)]

    run(choose)
    assert seen[0][0] == seen[0][1] > 400
    assert isinstance(make_chooser(choose), FromFunction)


def test_the_default_says_that_it_built_no_graph():
    results = run(None, epochs=12)  # as long as they become faster, the first eight run serially without more ado
    assert all(result.policies in (["serial"], ["ordered"]) for result in results)
    assert not any(result.choices[0].looked for result in results)
    assert "no graph was built" in results[-1].choices[0].text()


@pytest.mark.parametrize("policy", all_policies(), ids=lambda policy: policy.name)
def test_the_timeline_has_every_operation(policy):
    [result] = run(policy, options=ExecutionOptions(timeline=10_000))
    ran = [moment for moment in result.timeline if moment.what >= 0]
    if policy.is_serial:
        assert [moment.what for moment in result.timeline] == [-3]
    else:
        assert len(ran) == result.counters["operations"]
        assert len({moment.what for moment in ran}) + result.counters["cancellations"] >= 400
    assert all(0 <= moment.begin <= moment.end <= result.times.total for moment in result.timeline)
    for thread in range(2):
        mine = [moment for moment in result.timeline if moment.thread == thread]
        assert all(before.end <= after.begin for before, after in pairwise(mine))


def test_a_full_timeline_keeps_the_first_and_goes_on():
    [result] = run("breadth-first/fine/lazy", options=ExecutionOptions(timeline=10))
    assert len(result.timeline) == 20
    assert result.counters["operations"] > 400


def test_no_timeline_unless_asked_for():
    assert run("unstructured/fine/eager")[0].timeline == []
