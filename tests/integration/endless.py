"""An application whose user function never ends for one amount, for the watchdog's test: `millrace run --app` loads it."""

from engine import Application, int64, udf

ENDLESS = 13


def build() -> Application:
    app = Application("endless")
    cells = app.table("cells", key=int, value={"total": int64})
    app.event("Add", {"cell": int64, "amount": int64})

    @udf
    def add_slowly(cell, event):
        cell.total += event.amount
        steps = 0
        while event.amount == 13 and steps >= 0:
            steps = (steps * 1_103_515_245 + 12_345) % 2_147_483_648
        return True

    @app.transaction("Add")
    def adding(txn, event):
        txn.write(cells[event.cell], add_slowly)

    return app
