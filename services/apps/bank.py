"""The bank of Consistent Stream Processing: accounts with integrity constraints over two state operators.

Deposits, withdrawals and transfers; a balance is never below zero. A user may take part in at most five operations in
any minute of event time, both users of a transfer counted; refused operations do not count. Each operation writes its
users' `activity` record, so the versions in that record's window are the operations that went through. A transfer to
oneself is one operation.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# (user functions are typed by numba when they are declared)

from millrace import Application, int64, udf

MINUTE_MS = 60_000
OPERATIONS_MAX = 5


def build(operations_max: int = OPERATIONS_MAX, span_ms: int = MINUTE_MS) -> Application:
    """Declares the bank; event time is in milliseconds."""
    app = Application("bank")

    @udf
    def non_negative(account):
        return account.balance >= 0

    @udf
    def add(account, event):
        account.balance += event.amount

    @udf
    def subtract(account, event):
        account.balance -= event.amount

    @udf
    def count_operation(activity, event, recent):
        activity.operations += 1
        return recent < operations_max

    accounts = app.table("accounts", key=int, value={"balance": int64}, constraint=non_negative)
    activity = app.table("activity", key=int, value={"operations": int64})
    app.event("Deposit", {"user": int64, "amount": int64})
    app.event("Withdrawal", {"user": int64, "amount": int64})
    app.event("Transfer", {"sender": int64, "receiver": int64, "amount": int64})

    def count(txn, user):
        # A window reaches back to ts - size and includes it; one unit less makes the minute half open.
        recent = activity[user].window(span_ms - 1, "count")
        txn.write(activity[user], count_operation, reads=[recent])

    @app.transaction("Deposit")
    def deposit(txn, event):
        count(txn, event.user)
        txn.write(accounts[event.user], add)

    @app.transaction("Withdrawal")
    def withdrawal(txn, event):
        count(txn, event.user)
        txn.write(accounts[event.user], subtract)

    @app.transaction("Transfer")
    def transfer(txn, event):
        count(txn, event.sender)
        count(txn, event.receiver)
        txn.write(accounts[event.sender], subtract)
        txn.write(accounts[event.receiver], add)

    return app
