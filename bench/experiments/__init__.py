"""All experiments, by name, in the order they are listed and run.

First what our own targets are judged by, so that a run that is cut short has them; then the papers' figures; then starting,
which compiles and heats; last what needs a broker. All but those with a broker fit into an hour.
"""

from bench.end_to_end import latency, recovery, throughput
from bench.experiment import Experiment
from bench.experiments import (
    accesses,
    dimensions,
    dynamic,
    overhead,
    scalability,
    speed_ledger,
    speed_policies,
    speed_start,
    tstream,
)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        speed_ledger.SPEED_LEDGER,
        speed_ledger.SPEED_PLANNING,
        speed_policies.SPEED_TWO_THREADS,
        speed_policies.SPEED_REGRET,
        speed_ledger.SPEED_TABLE_SIZE,
        speed_ledger.SPEED_EPOCH_SIZE,
        overhead.SPEED_MEMORY,
        accesses.SPEED_WINDOWS,
        accesses.SPEED_COMPUTED,
        dynamic.FIG12,
        dynamic.FIG13,
        accesses.FIG14,
        accesses.FIG15,
        overhead.FIG16,
        overhead.FIG17,
        dimensions.FIG18,
        dimensions.FIG19,
        dimensions.FIG20,
        scalability.FIG21B,
        tstream.FIG8,
        tstream.FIG10,
        tstream.FIG11,
        tstream.FIG12,
        tstream.FIG13,
        speed_start.SPEED_START,
        throughput.THROUGHPUT,
        latency.LATENCY,
        recovery.RECOVERY,
    )
}
