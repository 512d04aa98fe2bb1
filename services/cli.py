"""The `millrace` command: reads the command line, hands over to the module that does the work.

Each command imports its module only when it is chosen, so `millrace --help` compiles nothing. A `MillraceError` is
one sentence on stderr and exit code 2; any other exception is a bug and keeps its traceback.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from services.arguments import add_command, add_json, add_seed, count, counts, later, number
from services.engine import command as engine_command
from services.engine import outcomes_command
from services.kafka import command as kafka_command
from spark_jobs import command as spark_command

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # what a shell reports for a process ended by Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    # Imported here, because importing the engine loads numba.
    from engine.errors import MillraceError

    try:
        code: int = arguments.command(arguments)
    except MillraceError as error:
        print(f"millrace: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_ERROR
    return code


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, declared in one place."""
    parser = argparse.ArgumentParser(
        prog="millrace",
        description="ACID transactions over event streams.",
        epilog="Start with `millrace demo`.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_explain(commands)
    _add_verify(commands)
    _add_bench(commands)
    engine_command.add_run(commands)
    outcomes_command.add_commands(commands)
    kafka_command.add_broker(commands)
    kafka_command.add_topics(commands)
    spark_command.add_publish(commands)
    spark_command.add_account(commands)
    return parser


def _add_demo(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "demo",
        summary="the whole pipeline on this machine: Kafka, Spark, the engine, a kill -9, and the accounting",
        description="Starts a Kafka broker, publishes Streaming Ledger events with Spark, runs the engine service, kills it (-9) "
        "in the middle, and lets Spark check at the end that every event is accounted for. Takes under two minutes, leaves "
        "nothing running. Needs Java 17 and, the first time, Maven; with --in-process neither.",
        example="millrace demo --events 1000000 --seed 7",
    )
    parser.add_argument("--events", type=count, metavar="N", help="events in all (1,000,000; in process 100,000)")
    parser.add_argument("--in-process", action="store_true", help="the engine alone, in this process, without a broker")
    parser.add_argument(
        "--epochs", type=count, default=5, metavar="N", help="in process: epochs to cut them into (%(default)s)"
    )
    add_seed(parser)
    add_json(parser)
    parser.add_argument("--svg", metavar="PATH", help="in process: draw a small epoch's task precedence graph here")
    parser.set_defaults(command=_demo)


def _add_explain(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "explain",
        summary="run a workload and explain one epoch: what was measured, chosen and done",
        description="Runs some epochs of a workload in this process and says for one of them what its graph looked like, "
        "which policy was chosen and why, and where the time went; draws the graph and what each thread did.",
        example="millrace explain --app streaming-ledger --policy paper --epochs 4 --svg build/graph.svg",
    )
    parser.add_argument(
        "--app",
        default="streaming-ledger",
        metavar="NAME",
        help="streaming-ledger, dynamic-ledger, grep-sum, toll-processing, nested-tolls, online-bidding, bank, or "
        "module:function that gives (application, epochs, tables) for (events, epochs, seed) (%(default)s)",
    )
    parser.add_argument("--epochs", type=count, default=4, metavar="N", help="epochs to run (%(default)s)")
    parser.add_argument("--events", type=count, default=10_240, metavar="N", help="events an epoch (%(default)s)")
    parser.add_argument("--epoch", type=number, metavar="K", help="the epoch to explain, from 0 (the last)")
    parser.add_argument(
        "--policy", default="cost", metavar="NAME", help="cost, paper, or a policy such as serial (%(default)s)"
    )
    parser.add_argument("--threads", type=count, metavar="N", help="threads (one a core)")
    parser.add_argument(
        "--busy",
        type=number,
        default=0,
        metavar="N",
        help="loops in each user function: the workloads' C (%(default)s)",
    )
    parser.add_argument("--svg", metavar="PATH", help="draw the graph into this file, the threads into PATH-timeline")
    parser.add_argument("--colour", choices=("state", "thread"), default="state", help="of operations (%(default)s)")
    add_seed(parser)
    add_json(parser)
    parser.set_defaults(command=later("services.explain"))


def _add_verify(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "verify",
        summary="check the engine against an independent oracle",
        description="Checks that the engine keeps its contract: every policy and thread count gives the serial answer.",
        example="millrace verify engine --epochs 100 --seed 1",
    )
    targets = parser.add_subparsers(title="what to verify", metavar="WHAT", required=True)

    engine = add_command(
        targets,
        "engine",
        summary="random epochs, every policy, against the oracle",
        description="Makes random applications and epochs from the seed, runs each under every policy and thread "
        "count, and compares verdicts, outputs and final state with the oracle's. Exit code 1 if any differs.",
        example="millrace verify engine --epochs 1000 --seed 1 --threads 1,2,4",
    )
    engine.add_argument("--epochs", type=count, default=100, metavar="N", help="random epochs to run (%(default)s)")
    add_seed(engine)
    engine.add_argument("--threads", type=counts, default=(1, 2, 4), metavar="N,N", help="thread counts to try (1,2,4)")
    engine.add_argument(
        "--baselines", action="store_true", help="also the papers' baselines that give the serial answer"
    )
    engine.add_argument("--jobs", type=count, default=1, metavar="N", help="processes to share the work (%(default)s)")
    engine.add_argument("--application", type=int, metavar="K", help="only this generated application (to reproduce)")
    engine.add_argument("--stream-seed", type=int, default=0, metavar="X", help="with --application: the stream's seed")
    add_json(engine)
    engine.set_defaults(command=later("services.verify.command", "run_engine"))

    mutations = add_command(
        targets,
        "mutations",
        summary="break the engine on purpose and see that the oracle notices",
        description="Puts one known mistake at a time into the engine and runs the verification on it. A mistake that "
        "goes unnoticed is a hole in the verification. Exit code 1 if there is one.",
        example="millrace verify mutations --json",
    )
    mutations.add_argument("--only", default="", metavar="TEXT", help="only those with this in their names")
    mutations.add_argument("--jobs", type=count, default=1, metavar="N", help="how many at a time (%(default)s)")
    add_json(mutations)
    mutations.set_defaults(command=later("services.verify.mutations"))

    simulation = add_command(
        targets,
        "simulate",
        summary="the service's decisions in a simulated world of broker, disk and clock, with faults by seed",
        description="Runs the service's state machine with a simulated broker and disk that crash, delay, repeat, reorder, "
        "lose acknowledgements and tear writes, and checks every result from the input alone. Exit code 1 if one is wrong. "
        "With --bugs, known mistakes are put into the machine one at a time, and each must be found.",
        example="millrace verify simulate --seeds 1000 --seed 0 --jobs 2",
    )
    simulation.add_argument("--seeds", type=count, default=1000, metavar="N", help="seeds to run (%(default)s)")
    simulation.add_argument(
        "--input", choices=("chunks", "records"), default="chunks", help="the kind of input (%(default)s)"
    )
    simulation.add_argument("--bugs", action="store_true", help="look for the deliberate bugs instead")
    simulation.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="processes to share the work (%(default)s)"
    )
    add_seed(simulation)
    add_json(simulation)
    simulation.set_defaults(command=later("services.verify.simulation.command"))

    crash = add_command(
        targets,
        "crash",
        summary="real broker, real engine processes: kills, broker kills, pauses, cut connections, against the oracle",
        description="Runs a generated application on a real broker while engine processes kill themselves in nine phases, nodes "
        "of a three-broker cluster are killed, the broker stands still past the transaction time-out, and connections are cut "
        "through a proxy. Results, counts and the final state must be the oracle's. Exit code 1 if anything is missing, twice, "
        "torn, out of order or wrong.",
        example="millrace verify crash --kills 20 --cuts 5 --seed 7",
    )
    crash.add_argument("--kills", type=number, default=0, metavar="N", help="engines killed (%(default)s)")
    crash.add_argument(
        "--broker-kills", type=number, default=0, metavar="N", help="brokers of three killed (%(default)s)"
    )
    crash.add_argument(
        "--pauses", type=number, default=0, metavar="N", help="times the broker stands still (%(default)s)"
    )
    crash.add_argument("--cuts", type=number, default=0, metavar="N", help="cut or frozen connections (%(default)s)")
    crash.add_argument(
        "--application", type=number, default=-1, metavar="K", help="this generated application (by the seed)"
    )
    add_seed(crash)
    add_json(crash)
    crash.set_defaults(command=later("services.verify.crash.command"))

    codec = add_command(
        targets,
        "codec",
        summary="broken payloads to the decoder: only typed errors, or what fastavro reads",
        description="Breaks valid payloads (flips, cuts, splices, huge lengths) and holds the compiled decoder against the "
        "rules in plain Python and against fastavro. Exit code 1 at the first difference, with the input.",
        example="millrace verify codec --inputs 100000 --seed 1",
    )
    codec.add_argument("--inputs", type=count, default=100_000, metavar="N", help="inputs to try (%(default)s)")
    add_seed(codec)
    add_json(codec)
    codec.set_defaults(command=later("services.verify.codec"))


def _add_bench(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "bench",
        summary="repeat the papers' experiments, and our own, on this machine",
        description="Runs experiments, writes their data as CSV, draws their figures and checks that every policy gives "
        "the same answer. A run that was stopped goes on where it was.",
        example="millrace bench run speed-ledger --quick",
    )
    targets = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)

    listing = add_command(
        targets,
        "list",
        summary="the experiments, which figure each repeats, and how long it takes",
        description="Lists the experiments with the paper's figure, what they show and about how long a full run takes.",
        example="millrace bench list",
    )
    add_json(listing)
    listing.set_defaults(command=later("bench.command", "list_experiments"))

    run = add_command(
        targets,
        "run",
        summary="run experiments by name, or all",
        description="Measures what the data file does not hold yet, repeat by repeat over all cells, and draws the "
        "figure. Exit code 1 if a policy gave another answer than the others.",
        example="millrace bench run fig12-dynamic fig18-exploration --repeats 9 --out /tmp/results",
    )
    run.add_argument(
        "names", nargs="+", metavar="NAME", help="names from `millrace bench list`, patterns such as 'fig*', or all"
    )
    run.add_argument(
        "--quick", action="store_true", help="small sizes, seconds each: shows that it works, not how fast"
    )
    run.add_argument("--repeats", type=count, metavar="N", help="repeats of every cell (7; quick: 3)")
    run.add_argument(
        "--compile",
        action="store_true",
        help="compile what the run needs and stop, so that a quiet hour goes to measuring",
    )
    run.add_argument("--fresh", action="store_true", help="throw away what was measured before")
    add_seed(run)
    add_json(run)
    _add_results(run)
    run.set_defaults(command=later("bench.command"))

    report = add_command(
        targets,
        "report",
        summary="render docs/results.md from the data that is there",
        description="Writes the page of results: for each experiment the paper's claim, our figure and numbers.",
        example="millrace bench report",
    )
    add_json(report)
    _add_results(report)
    report.add_argument("--docs", type=Path, default=Path("docs"), metavar="DIR", help="where to write (%(default)s)")
    report.set_defaults(command=later("bench.command", "render_report"))


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("bench/results"), metavar="DIR", help="where the data is (%(default)s)"
    )


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.in_process:
        from services.demo import in_process

        return in_process.run(arguments)
    from services.demo import pipeline

    return pipeline.run(arguments)
