"""A table of cells and one small transaction for each way to touch it: what the tests draw graphs of."""

# mypy: ignore-errors

from engine import Application, int64, list_of, udf

A, B, C, D, E = range(5)
LOADED = {key: {"value": 1} for key in range(10)}


@udf
def put(cell, event):
    cell.value = event.amount


@udf
def add_one(cell, event, other):
    cell.value += other.value


@udf
def add_all(cell, event, others):
    for other in others:
        cell.value += other.value


@udf
def at_amount(event):
    return event.amount


@udf
def at_value(event, other):
    return other.value


@udf
def show(output, event, seen):
    output.value = seen.value


@udf
def add_number(cell, event, number):
    cell.value += number


@udf
def show_number(output, event, number):
    output.value = number


@udf
def show_all(output, event, seen):
    for each in seen:
        output.value += each.value


def declare_cells() -> Application:
    """Cells are loaded, not created: a whole table that is folded cannot get computed keys."""
    app = Application("planning-cells")
    cells = app.table("cells", key=int, value={"value": int64}, create=False)
    for name in ("Set", "Look", "Total", "Twice", "Recent", "Jump", "Peek"):
        app.event(name, {"key": int64, "amount": int64})
    for name in ("Copy", "Move", "Follow"):
        app.event(name, {"origin": int64, "target": int64, "amount": int64})
    app.event("Gather", {"keys": list_of(int64), "target": int64, "amount": int64})
    app.event("Show", {"keys": list_of(int64)})
    output = {"value": int64}

    @app.transaction("Set")
    def set_cell(txn, event):
        txn.write(cells[event.key], put)

    @app.transaction("Look", output=output)
    def look(txn, event):
        txn.output(show, reads=[txn.read(cells[event.key])])

    @app.transaction("Total", output=output)
    def total(txn, event):
        txn.output(show_number, reads=[cells.fold("sum", "value")])

    @app.transaction("Twice")
    def twice(txn, event):
        txn.write(cells[event.key], put)
        txn.write(cells[event.key], add_one, reads=[cells[event.key]])

    @app.transaction("Recent")
    def recent(txn, event):
        txn.write(cells[event.amount], add_number, reads=[cells[event.key].window(10, "sum", "value")])

    @app.transaction("Jump")
    def jump(txn, event):
        txn.write(cells.computed(at_amount), put)

    @app.transaction("Peek", output=output)
    def peek(txn, event):
        txn.output(show, reads=[cells.computed(at_amount)])

    @app.transaction("Copy")
    def copy(txn, event):
        txn.write(cells[event.target], add_one, reads=[cells[event.origin]])

    @app.transaction("Move")
    def move(txn, event):
        origin = cells[event.origin]
        txn.write(origin, put)
        txn.write(cells[event.target], add_one, reads=[origin])

    @app.transaction("Follow")
    def follow(txn, event):
        txn.write(cells.computed(at_value, reads=[cells[event.origin]]), put)
        txn.write(cells[event.target], put)

    @app.transaction("Gather")
    def gather(txn, event):
        txn.write(cells[event.target], add_all, reads=[cells[event.keys]])

    @app.transaction("Show", output=output)
    def show_cells(txn, event):
        txn.output(show_all, reads=[cells[event.keys]])

    return app


cells = declare_cells()


def at(name, key, amount=1):
    """An event that names one cell."""
    return name, {"key": key, "amount": amount}


def between(name, origin, target):
    """An event from one cell to another."""
    return name, {"origin": origin, "target": target, "amount": 1}


def gather(keys, target):
    return "Gather", {"keys": list(keys), "target": target, "amount": 1}
