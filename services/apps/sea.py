"""SEA, stock exchange analysis: a hash-based window join of quotes and trades by stock (MorphStream section 8.6.2).

Each stream has a table by stock id; the versions of a record that lie in the window are the tuples of the join's hash
table. One transaction probes the other stream's window, lets what is too old expire (the window does) and inserts its
own tuple. Its output: how many tuples matched, and the stock's turnover rate, traded over quoted quantity in the
window, this event included (0 while nothing is quoted).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# (user functions are typed by numba when they are declared)

from millrace import Application, float64, int64, udf

WINDOW = 1_000


def build(window: int = WINDOW) -> Application:
    """Declares the join; `window` is in units of event time."""
    app = Application("stock-exchange-analysis")

    @udf
    def gather(found, tuple_in_window):
        found.tuples += 1
        found.quantity += tuple_in_window.quantity

    @udf
    def insert(record, event):
        record.quantity = event.quantity
        record.price = event.price
        return event.quantity > 0

    @udf
    def after_trade(output, trade, quotes_found, trades_found):
        output.matches = quotes_found.tuples
        output.quoted = quotes_found.quantity
        output.traded = trades_found.quantity + trade.quantity
        if output.quoted > 0:
            output.turnover = output.traded / output.quoted

    @udf
    def after_quote(output, quote, quotes_found, trades_found):
        output.matches = trades_found.tuples
        output.quoted = quotes_found.quantity + quote.quantity
        output.traded = trades_found.quantity
        if output.quoted > 0:
            output.turnover = output.traded / output.quoted

    tuple_fields = {"quantity": int64, "price": float64}
    quotes = app.table("quotes", key=str, value=tuple_fields)
    trades = app.table("trades", key=str, value=tuple_fields)
    app.event("Quote", {"stock": str, "quantity": int64, "price": float64})
    app.event("Trade", {"stock": str, "quantity": int64, "price": float64})
    found = {"tuples": int64, "quantity": int64}
    result = {"matches": int64, "quoted": int64, "traded": int64, "turnover": float64}

    def probe(txn, table, stock):
        return txn.read(table[stock].window(window, gather, into=found))

    @app.transaction("Quote", output=result)
    def quote(txn, event):
        in_window = [probe(txn, quotes, event.stock), probe(txn, trades, event.stock)]
        txn.write(quotes[event.stock], insert)
        txn.output(after_quote, reads=in_window)

    @app.transaction("Trade", output=result)
    def trade(txn, event):
        in_window = [probe(txn, quotes, event.stock), probe(txn, trades, event.stock)]
        txn.write(trades[event.stock], insert)
        txn.output(after_trade, reads=in_window)

    return app
