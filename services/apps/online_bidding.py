"""OB, Online Bidding: items with an asking price and a quantity (TStream section VI-A).

A bid is refused when it is below the asking price or when the item runs out. `Alter` sets the prices of a list of
items, `Top` adds to their quantities (20 each in the workload); one item that does not exist fails the whole list.
"""

# mypy: allow-untyped-defs
# (user functions are typed by numba when they are declared)

from millrace import Application, int64, list_of, udf
from services.apps.busy import busy


def build(busy_iterations: int = 0) -> Application:
    """Declares the auction."""
    app = Application("online-bidding")

    @udf
    def sell(item, bid):
        item.quantity -= bid.quantity
        return busy(bid.quantity, busy_iterations) and bid.price >= item.price and item.quantity >= 0

    @udf
    def set_price(item, alter, price):
        item.price = price

    @udf
    def add_quantity(item, top, quantity):
        item.quantity += quantity

    items = app.table("items", key=int, value={"price": int64, "quantity": int64}, create=False)
    app.event("Bid", {"item": int64, "price": int64, "quantity": int64})
    app.event("Alter", {"items": list_of(int64), "prices": list_of(int64)})
    app.event("Top", {"items": list_of(int64), "quantities": list_of(int64)})

    @app.transaction("Bid")
    def bid(txn, event):
        txn.write(items[event.item], sell)

    @app.transaction("Alter")
    def alter(txn, event):
        txn.write(items[event.items], set_price, each=[event.prices])

    @app.transaction("Top")
    def top(txn, event):
        txn.write(items[event.items], add_quantity, each=[event.quantities])

    return app
