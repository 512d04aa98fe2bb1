"""GS, Grep and Sum: read r keys, write their sum or mean to the first (MorphStream sections 8.1, 8.2.3 and 8.2.4).

Three applications over one table: `build` (plain), `build_windowed` (queries over the last versions of many keys) and
`build_computed` (the keys written and read come from user functions over state: the paper's non-deterministic access).
The mean keeps values within bounds; sums of sums grow until they overflow, which fails the transaction.
An event that is not `allowed` is refused: the workload's aborts.
"""

# mypy: allow-untyped-defs
# (user functions are typed by numba when they are declared)

from engine.api.tracing import TableProxy
from millrace import Application, boolean, int64, list_of, udf
from services.apps.busy import busy


def build(busy_iterations: int = 0, mean: bool = True) -> Application:
    """Plain GS: `Sum` writes `keys` from themselves and `others`; `Query` returns the sum of `keys`."""
    app = Application("grep-sum")
    records = _declare_sum(app, busy_iterations, mean)

    @udf
    def total_of(output, query, found):
        for position in range(len(found)):
            output.total += found[position].value

    app.event("Query", {"keys": list_of(int64)})

    @app.transaction("Query", output={"total": int64})
    def query(txn, event):
        txn.output(total_of, reads=[records[event.keys]])

    return app


def build_windowed(busy_iterations: int = 0, window: int = 1_000, mean: bool = True) -> Application:
    """Windowed GS: `WindowQuery` sums what was written to each of `keys` in the last `window` units of event time."""
    app = Application("grep-sum-windowed")
    records = _declare_sum(app, busy_iterations, mean)

    @udf
    def total_of(output, query, sums):
        for position in range(len(sums)):
            output.total += sums[position].value

    app.event("WindowQuery", {"keys": list_of(int64)})

    @app.transaction("WindowQuery", output={"total": int64})
    def query(txn, event):
        sums = txn.read(records[event.keys].window(window, "sum", field="value"))
        txn.output(total_of, reads=[sums])

    return app


def build_computed(states: int = 100_000, busy_iterations: int = 0, mean: bool = True) -> Application:
    """Non-deterministic GS: `ComputedSum` chooses the key it writes and the key it reads by what two others hold."""
    app = Application("grep-sum-computed")
    records = _declare_sum(app, busy_iterations, mean)

    @udf
    def key_to_write(event, seed):
        return (seed.value % states + event.random % states) % states

    @udf
    def key_to_read(event, seed):
        return seed.value % states

    @udf
    def add_and_halve(record, event, other):
        record.value = (record.value + other.value) // 2
        return busy(record.value, busy_iterations) and event.allowed

    app.event("ComputedSum", {"write_seed": int64, "read_seed": int64, "allowed": boolean})

    @app.transaction("ComputedSum")
    def computed_sum(txn, event):
        other = txn.read(records.computed(key_to_read, reads=[records[event.read_seed]]))
        target = records.computed(key_to_write, reads=[records[event.write_seed]])
        txn.write(target, add_and_halve, reads=[other])

    return app


def _declare_sum(app: Application, busy_iterations: int, mean: bool) -> TableProxy:
    """The table and the `Sum` transaction, which all variants share."""

    @udf
    def write_mean(record, event, others):
        total = record.value
        for position in range(len(others)):
            total += others[position].value
        record.value = total // (len(others) + 1)
        return busy(record.value, busy_iterations) and event.allowed

    @udf
    def write_sum(record, event, others):
        for position in range(len(others)):
            record.value += others[position].value
        return busy(record.value, busy_iterations) and event.allowed

    records = app.table("records", key=int, value={"value": int64})
    app.event("Sum", {"keys": list_of(int64), "others": list_of(int64), "allowed": boolean})

    @app.transaction("Sum")
    def sum_up(txn, event):
        txn.write(records[event.keys], write_mean if mean else write_sum, reads=[records[event.others]])

    return records
