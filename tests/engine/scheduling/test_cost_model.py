"""The cost model on numbers alone: what it predicts, what it skips, how soon it changes its mind, what that costs it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from engine.scheduling.cost_model import CostModel
from engine.scheduling.policy import SERIAL, Abort, Exploration, Granularity, policy_named
from engine.scheduling.prediction import Work, optimistic_ns, predict_all, run_ns
from engine.scheduling.profile import Average, Costs
from engine.scheduling.properties import Shape
from tests.engine.scheduling.simulated import SimulatedStage, World, look_at_world, observation_of, play

CHEAP, DEAR = 50.0, 10_000.0  # ns an operation: no work at all, and C = 10 µs


def set_costs(serial, **others):
    costs = Costs()
    costs.serial.value = serial
    for name, value in others.items():
        getattr(costs, name).value = value
    return costs


def model():
    return CostModel(look_at_world, cores=2)


def world(serial, **options):
    return World(costs=set_costs(serial), **options)


def test_a_prediction_is_the_formula():
    costs = set_costs(100.0, extra=20.0, start=4_000.0, opening=1.0, graph=7.0, barrier=900.0)
    costs.explore[Exploration.BREADTH_FIRST, Granularity.FINE].value = 30.0
    costs.explore[Exploration.UNSTRUCTURED, Granularity.FINE].value = 50.0
    costs.units[Granularity.FINE].value = 3.0
    costs.settle[Abort.LAZY].value, costs.redo[Abort.LAZY].value = 400.0, 2.0
    costs.signal = 4.0
    shape = Shape(units=1_000, edges=600, strata=5, span=5.0, steps=502.0)
    work = Work(1_000, 250, 0.1, 2.0, {Granularity.FINE: shape})
    # 502 steps of 100 + 20 + 30 ns, 5 barriers of 900 ns; 25 aborts of 400 ns and 2 operations again on two threads.
    breadth = 502 * 150 + 5 * 900 + 25 * (400 + 2 * 150 / 2)
    assert run_ns(costs, work, policy_named("breadth-first/fine/lazy")) == pytest.approx(breadth + 5_000)
    unstructured = 500 * 170 + 600 * 4 / 2 + 25 * (400 + 2 * 170 / 2)
    assert run_ns(costs, work, policy_named("unstructured/fine/lazy")) == pytest.approx(unstructured + 5_000)
    totals = predict_all(costs, work)
    assert totals[SERIAL] == 100_000
    assert totals[policy_named("unstructured/fine/lazy")] == pytest.approx(unstructured + 5_000 + 1_000 * (7 + 3))
    assert {policy.granularity for policy in totals if not policy.is_serial} == {Granularity.FINE}


def test_behind_a_fence_a_lazy_abort_runs_nearly_all_again():
    costs = set_costs(DEAR)
    shape = Shape(1_000, 600, 5, 5.0, 502.0)
    times = {
        fenced: predict_all(costs, Work(1_000, 1_000, 0.01, 2.0, {Granularity.FINE: shape}, fenced))
        for fenced in (0.0, 1.0)
    }
    lazy, eager = policy_named("unstructured/fine/lazy"), policy_named("unstructured/fine/eager")
    assert times[0.0][lazy] < 1.1 * times[0.0][eager]
    assert times[1.0][lazy] > 1.8 * times[1.0][eager] and times[1.0][eager] == times[0.0][eager]


def test_a_long_path_leaves_nothing_to_share():
    costs = set_costs(DEAR)
    chain = Shape(1_000, 999, 1_000, 1_000.0, 1_000.0)
    totals = predict_all(costs, Work(1_000, 1_000, 0.0, 2.0, {Granularity.FINE: chain}))
    assert min(totals, key=lambda policy: totals[policy]) is SERIAL


def test_no_parallel_run_is_below_the_bound():
    for serial in (CHEAP, 1_000.0, DEAR):
        here = world(serial)
        bound = optimistic_ns(here.costs, here.operations, 2.0)
        assert all(here.time_ns(policy) >= bound for policy in predict_all(here.costs, here.work(Granularity))
                   if not policy.is_serial)  # fmt: skip


def test_one_thread_is_serial():
    chooser = model()
    assert {epoch.policy for epoch in play(chooser, world(DEAR, threads=1), 20)} == {SERIAL}
    assert "1 thread(s)" in chooser.explain().text()
    assert {epoch.policy for epoch in play(CostModel(look_at_world, cores=1), world(DEAR), 20)} == {SERIAL}


def test_cheap_operations_build_no_graph_and_look_again():
    chooser = model()
    played = play(chooser, world(CHEAP), 2_000)
    looks = [number for number, epoch in enumerate(played) if epoch.looked]
    assert {epoch.policy for epoch in played} == {SERIAL}
    assert 1 <= len(looks) <= 20, looks
    apart = [later - earlier for earlier, later in pairwise(looks)]
    assert len(apart) >= 2 and apart[-1] > apart[0], looks
    assert "no graph was built" in chooser.explain().text()


def test_dear_operations_run_in_parallel():
    played = play(model(), world(DEAR), 60)
    assert [epoch.policy for epoch in played[:2]] == [SERIAL, SERIAL]
    assert SERIAL not in {epoch.policy for epoch in played[3:]}


def test_switches_when_operations_become_dear_and_back():
    chooser, here = model(), world(CHEAP)
    assert {epoch.policy for epoch in play(chooser, here, 300)} == {SERIAL}
    here.costs.serial.value = DEAR
    dear = [epoch.policy for epoch in play(chooser, here, 60)]
    assert SERIAL not in dear[5:], [policy.name for policy in dear]
    here.costs.serial.value = CHEAP
    cheap = [epoch.policy for epoch in play(chooser, here, 60)]
    assert set(cheap[8:]) == {SERIAL}, [policy.name for policy in cheap]


@pytest.mark.parametrize("serial", [CHEAP, 300.0, 1_000.0, 3_000.0, DEAR])
@pytest.mark.parametrize("aborts", [0.0, 0.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_regret_is_bounded(serial, aborts, seed):
    """Whatever the true costs, also where starting values are wrong: within a few per cent of the best fixed policy."""
    here = world(serial, abort_ratio=aborts, seed=seed)
    truth = here.costs
    truth.extra.value, truth.graph.value, truth.start.value = 10.0, 20.0, 60_000.0
    for number, average in enumerate(truth.explore.values()):
        average.value = 20.0 + 40.0 * ((number * 7 + seed) % 6)  # another order than the starting values'
    truth.settle[Abort.LAZY].value, truth.redo[Abort.LAZY].value = 1_500.0, 6.0
    played = play(model(), here, 400)
    taken = sum(epoch.time_ns for epoch in played)
    first = sum(epoch.time_ns for epoch in played[:2])
    best = here.best_ns() * 400
    assert taken - first <= 1.05 * best, f"{taken / best:.3f} of the best, seed {seed}"


def test_many_aborts_that_redo_much_make_eager_better():
    here = world(DEAR, abort_ratio=0.5)
    here.costs.redo[Abort.LAZY].value, here.costs.redo[Abort.EAGER].value = 8.0, 0.5
    played = play(model(), here, 200)
    assert {epoch.policy.abort for epoch in played[-50:]} == {Abort.EAGER}


def test_the_first_time_of_a_kernel_is_not_believed():
    """Compiling takes a thousand times longer than running; parallel policies share their kernels and get another chance."""
    chooser, here = model(), world(DEAR)
    compiled = set()
    chosen = []
    for _ in range(40):
        stage = SimulatedStage(here)
        [(policy, _)] = chooser.choose(stage)
        chosen.append(policy)
        seen = observation_of(stage, policy)
        if policy.is_serial not in compiled:
            compiled.add(policy.is_serial)
            seen = replace(seen, run_ns=1_000 * seen.run_ns)
        chooser.learn(seen)
    assert [policy.is_serial for policy in chosen[3:]] == [False] * 37


def test_an_average_ignores_one_outlier_and_follows_two():
    average = Average(1.0)
    for _ in range(3):
        average.add(2.0)
    average.add(100.0)
    assert average.value == 2.0
    average.add(110.0)
    assert average.value == 110.0


def test_a_first_value_far_above_the_guess_has_to_come_twice():
    average = Average(10.0)
    average.add(5_000.0)
    assert (average.value, average.count) == (10.0, 0)
    average.add(11.0)
    assert (average.value, average.count) == (11.0, 1)
    other = Average(10.0)
    for _ in range(2):
        other.add(5_000.0)
    assert (other.value, other.count) == (5_000.0, 1)


def test_the_explanation_has_every_number():
    chooser = model()
    play(chooser, world(DEAR), 14)  # the last of them no trial
    told = chooser.explain()
    assert set(told.predicted_ms) >= {"serial", "unstructured/fine/eager", "breadth-first/coarse/lazy"}
    assert told.observed_run_ms is not None and told.predicted_run_ms is not None
    assert told.observed_run_ms == pytest.approx(told.predicted_run_ms, rel=0.5)
    for part in ("least predicted time", "serial", "observed"):
        assert part in told.text()
    assert told.as_dict()["predicted_ms"] == told.predicted_ms
