# mypy: ignore-errors
"""Kernel: the Streaming Ledger written by hand, as a plain loop over columns. The yardstick for the engine's speed.

What a good engineer writes for exactly this workload: keys are array positions, deposits and transfers are merged by
time, conditions are checked before anything is written, so that an abort needs no undoing. It knows that keys are dense,
that a transfer's two sides differ and that no sum overflows; the engine knows none of it.
"""

from numba import njit

COMMITTED, FAILED = 0, 1


@njit(cache=True, nogil=True)
def run_ledger(
    accounts, assets,
    deposit_ts, deposit_account, deposit_asset, deposit_amount,
    transfer_ts, sender_account, sender_asset, receiver_account, receiver_asset, transfer_amount,
    verdict,
):  # fmt: skip
    """Runs one epoch in time order (each kind is sorted, times differ); one verdict a transaction."""
    deposits, transfers = deposit_ts.size, transfer_ts.size
    d = t = at = 0
    while d < deposits or t < transfers:
        if t == transfers or (d < deposits and deposit_ts[d] < transfer_ts[t]):
            account, asset, amount = deposit_account[d], deposit_asset[d], deposit_amount[d]
            d += 1
            fits = accounts[account] + amount >= 0 and assets[asset] + amount >= 0
            if fits:
                accounts[account] += amount
                assets[asset] += amount
        else:
            account, asset, amount = sender_account[t], sender_asset[t], transfer_amount[t]
            fits = accounts[account] >= amount and assets[asset] >= amount
            if fits:
                accounts[account] -= amount
                assets[asset] -= amount
                accounts[receiver_account[t]] += amount
                assets[receiver_asset[t]] += amount
            t += 1
        verdict[at] = COMMITTED if fits else FAILED
        at += 1
