"""SL, the Streaming Ledger: deposits and transfers over accounts and assets (MorphStream section 8.1).

A deposit writes one account and one asset. A transfer moves an amount from one account-asset pair to another, if both
balances suffice: four writes, all or none. MorphStream tests `balance > amount`; here a balance may be used up (`>=`).
`busy_iterations` is the workloads' C: a loop of squarings that no compiler can leave out (see busy.py).
"""

# mypy: allow-untyped-defs
# (user functions are typed by numba when they are declared)

from millrace import Application, int64, udf
from services.apps.busy import busy


def build(busy_iterations: int = 0) -> Application:
    """Declares the ledger."""
    app = Application("streaming-ledger")

    @udf
    def non_negative(record):
        return record.balance >= 0

    @udf
    def add(record, deposit):
        record.balance += deposit.amount
        return busy(deposit.amount, busy_iterations)

    @udf
    def debit(record, transfer):
        record.balance -= transfer.amount
        return busy(transfer.amount, busy_iterations) and record.balance >= 0

    @udf
    def credit(record, transfer, sender):
        record.balance += transfer.amount
        return busy(transfer.amount, busy_iterations) and sender.balance >= transfer.amount

    accounts = app.table("accounts", key=int, value={"balance": int64}, constraint=non_negative)
    assets = app.table("assets", key=int, value={"balance": int64}, constraint=non_negative)
    app.event("Deposit", {"account": int64, "asset": int64, "amount": int64})
    app.event(
        "Transfer",
        {
            "sender_account": int64,
            "sender_asset": int64,
            "receiver_account": int64,
            "receiver_asset": int64,
            "amount": int64,
        },
    )

    @app.transaction("Deposit")
    def deposit(txn, event):
        txn.write(accounts[event.account], add)
        txn.write(assets[event.asset], add)

    @app.transaction("Transfer")
    def transfer(txn, event):
        sender_account, sender_asset = accounts[event.sender_account], assets[event.sender_asset]
        txn.write(sender_account, debit)
        txn.write(sender_asset, debit)
        txn.write(accounts[event.receiver_account], credit, reads=[sender_account])
        txn.write(assets[event.receiver_asset], credit, reads=[sender_asset])

    return app
