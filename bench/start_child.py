"""A new process that declares the ledger and runs one small epoch, and prints how long each step took, as JSON."""

import json
import sys
import time


def main(transactions: int) -> None:
    """Imports are inside, because they are measured."""
    begin = time.perf_counter()
    from bench.running import Answer
    from bench.workload import ledger
    from engine import Engine
    from services.apps.workloads import Parameters

    imported = time.perf_counter()
    workload = ledger(Parameters(length=4, busy_us=0.0, transactions=transactions, states=1_000), 0.0)
    application = workload.application
    declared = time.perf_counter()
    answer = Answer()
    with Engine(application, policy="unstructured/fine/eager", threads=2) as engine:
        workload.load(engine, 1_000)
        times = []
        for epoch in workload.epochs(2, 1):
            started = time.perf_counter()
            answer.add(engine.run_epoch(epoch))
            times.append(time.perf_counter() - started)
        found = answer.finish(engine)
    values = {"import_s": imported - begin, "declare_s": declared - imported}
    print(json.dumps({**values, "first_epoch_s": times[0], "second_epoch_s": times[1], "answer": found}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
