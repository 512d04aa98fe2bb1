"""After warming up, no policy of another application finds a shared kernel that is still to be compiled."""

from numba.core import event

from engine import TestDriver, all_policies, warm_up
from services.apps import streaming_ledger


class Compiled(event.Listener):
    """Notes the engine's kernels that are compiled meanwhile; user functions and an application's own kernel are not shared."""

    def __init__(self):
        self.names = []

    def on_start(self, happened):
        function = happened.data["dispatcher"].py_func
        if function.__module__.startswith("engine."):
            self.names.append(f"{function.__module__}.{function.__name__}")

    def on_end(self, happened):
        """What was compiled is known since it began."""


def test_nothing_shared_is_left_to_compile():
    warm_up()
    listener = Compiled()
    with event.install_listener("numba:compile", listener):
        for policy in all_policies():
            driver = TestDriver(streaming_ledger.build(), threads=2, policy=policy)
            for ts in range(40):
                columns = {"account": ts % 4, "asset": ts % 3, "amount": ts * 100}
                driver.send("Deposit", ts=ts, **columns)
            assert driver.punctuate().changes.tables
            driver.engine.snapshot()
    assert listener.names == []


def test_the_second_time_takes_nothing():
    assert warm_up() == warm_up()
