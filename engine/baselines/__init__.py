"""The papers' baselines inside the same engine, for comparison only: nothing on the product's main path imports from here
but the two hooks that let an `Engine` run one (`engine/engine.py` reads the name, `engine/stage_run.py` starts it).

Planning, state, user functions, results and `run_operation` are the engine's own, so what a comparison shows is the way of
scheduling. `baseline.py` has the value that names one, `run.py` starts it, each kernel file has one scheme and the argument
why it cannot deadlock. All but No-Lock give exactly the serial answer, for every form of the programming model.
"""

from engine.baselines.baseline import EXACT, NO_LOCK, Baseline, baseline_named
from engine.baselines.run import run_baseline

__all__ = ["EXACT", "NO_LOCK", "Baseline", "baseline_named", "run_baseline"]
