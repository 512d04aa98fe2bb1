"""Registers: a table of numbers, and the few transactions the worked examples are made of."""

# mypy: ignore-errors

from engine import Application, int64, udf


@udf
def set_first(register, event):
    register.value = event.first_value
    return not event.first_fails


@udf
def set_second(register, event):
    register.value = event.second_value
    return not event.second_fails


@udf
def count_unless_above(register, event):
    if register.value > event.limit:
        return False
    register.value += 1
    return True


@udf
def ten_unless_above(register, event, other):
    register.value = 10
    return other.value <= event.limit


@udf
def add_other(register, event, other):
    register.value += other.value


@udf
def double(register, event):
    register.value *= 2


@udf
def increase(register, event):
    register.value += event.amount


@udf
def note_pair(output, event, before, after):
    output.before = before.value
    output.after = after.value


def declare_registers() -> Application:
    app = Application("contract-registers")
    registers = app.table("registers", key=str, value={"value": int64})
    first = {"first": str, "first_value": int64, "first_fails": bool}
    second = {"second": str, "second_value": int64, "second_fails": bool}
    app.event("Pair", {**first, **second})
    app.event("Guard", {"key": str, "limit": int64})
    app.event("Relay", {"origin": str, "target": str, "limit": int64})
    app.event("Add", {"origin": str, "target": str})
    app.event("Twist", {"key": str, "amount": int64})

    @app.transaction("Pair")
    def pair(txn, event):
        txn.write(registers[event.first], set_first)
        txn.write(registers[event.second], set_second)

    @app.transaction("Guard")
    def guard(txn, event):
        txn.write(registers[event.key], count_unless_above)

    @app.transaction("Relay")
    def relay(txn, event):
        txn.write(registers[event.target], ten_unless_above, reads=[registers[event.origin]])

    @app.transaction("Add")
    def add(txn, event):
        txn.write(registers[event.target], add_other, reads=[registers[event.origin]])

    @app.transaction("Twist", output={"before": int64, "after": int64})
    def twist(txn, event):
        key = registers[event.key]
        txn.write(key, increase)
        txn.write(key, double)
        last = txn.write(key, add_other, reads=[key])
        txn.output(note_pair, reads=[key, last])

    return app


registers = declare_registers()


def pair(driver, ts, first, second, fails=()):
    """Sets two registers to 10; `fails` names those whose write fails."""
    driver.send(
        "Pair",
        ts=ts,
        first=first,
        first_value=10,
        first_fails=first in fails,
        second=second,
        second_value=10,
        second_fails=second in fails,
    )


def values(driver):
    """Every register by name."""
    return {key: record["value"] for key, record in driver.state("registers").items()}


def verdicts(result):
    return [outcome.verdict for outcome in result.outcomes()]
