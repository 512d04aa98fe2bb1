"""Cells whose changes take a while, so that several threads really share the work."""

# mypy: ignore-errors

from engine import Application, int64, udf

SHORT = 5_000  # loops, tens of µs: longer than it takes to hand work to another thread
LONG = 2_000_000  # tens of ms: longer than the operating system keeps a ready thread waiting, as a rule
NOWHERE = -1  # a cell that nobody writes


@udf
def spin(number, loops):
    """Squares a number modulo a prime again and again, which no compiler can shorten."""
    for _ in range(loops):
        number = number * number % 2147483647
    return number


@udf
def step(cell, event, other):
    cell.value += 1 + other.value % 7
    return event.fails == 0 and spin(event.ts + 2, event.loops) >= 0


@udf
def first_step(cell, event):
    cell.value += 100
    return event.fails != 1


@udf
def second_step(cell, event):
    cell.value += 100
    return event.fails != 2


def declare_cells() -> Application:
    app = Application("contract-cells")
    cells = app.table("cells", key=int, value={"value": int64})
    app.event("Step", {"key": int64, "other": int64, "loops": int64, "fails": int64})
    app.event("Two", {"first": int64, "second": int64, "fails": int64})

    @app.transaction("Step")
    def one_step(txn, event):
        txn.write(cells[event.key], step, reads=[cells[event.other]])

    @app.transaction("Two")
    def two_steps(txn, event):
        txn.write(cells[event.first], first_step)
        txn.write(cells[event.second], second_step)

    return app


cells = declare_cells()


def send_step(driver, ts, key, other=NOWHERE, loops=SHORT):
    """Changes `key`, having read `other`."""
    driver.send("Step", ts=ts, key=key, other=other, loops=loops, fails=0)
