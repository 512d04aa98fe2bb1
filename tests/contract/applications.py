"""Applications that several contract tests share, declared once so that their functions are compiled once."""

# mypy: ignore-errors

import random
from collections.abc import Iterator

from engine import Application, Epoch, TestDriver, int64, udf

KEYS = 12
START = 100


@udf
def not_negative(account):
    return account.balance >= 0


@udf
def debit(account, transfer):
    account.balance -= transfer.amount


@udf
def credit(account, transfer, sender):
    account.balance += transfer.amount
    return sender.balance >= transfer.amount


def declare_ledger() -> Application:
    """Transfers between accounts; a receiver may be new, nobody may owe."""
    app = Application("contract-ledger")
    accounts = app.table("accounts", key=int, value={"balance": int64}, constraint=not_negative)
    app.event("Transfer", {"sender": int64, "receiver": int64, "amount": int64})

    @app.transaction("Transfer")
    def transfer(txn, event):
        sender = accounts[event.sender]
        txn.write(sender, debit)
        txn.write(accounts[event.receiver], credit, reads=[sender])

    return app


ledger = declare_ledger()


def load_accounts(driver: TestDriver, keys: int = KEYS) -> None:
    driver.load("accounts", {key: {"balance": START} for key in range(keys)})


def random_transfers(seed: int, epochs: int = 3, events: int = 120, keys: int = KEYS) -> Iterator[Epoch]:
    """Epochs of two sources, out of order, many of whose transfers are more than the sender has."""
    draw = random.Random(seed)
    for number in range(epochs):
        rows = [
            # the last two receivers are not loaded: they come to be
            (
                number * 100 + draw.randrange(1, 101),
                draw.randrange(keys),
                draw.randrange(keys + 2),
                draw.randrange(1, 160),
            )
            for _ in range(events)
        ]
        source = [at % 2 for at in range(events)]
        seq = [at // 2 for at in range(events)]
        ts, sender, receiver, amount = (list(column) for column in zip(*rows, strict=True))
        columns = {"ts": ts, "source": source, "seq": seq, "sender": sender, "receiver": receiver, "amount": amount}
        yield Epoch(number, number * 100 + 100, {"Transfer": columns})
