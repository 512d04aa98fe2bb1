"""Log lines in both forms, from the log's own set-up in a child process."""

import json
import subprocess
import sys

SCRIPT = """
import logging, sys
from services.engine.logs import log_event, set_up
from services.secret import Secret
set_up(sys.argv[1])
log_event(logging.WARNING, "late", "an epoch is late", epoch=7, partitions=[1, 2], password=Secret("hunter2"))
for _ in range(50):
    logging.getLogger("millrace.kafka").error("FAIL [client-1] a broker is away")
logging.getLogger("millrace.kafka").error("FAIL [client-2] a broker is away")
"""


def lines(form: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, form], capture_output=True, text=True, check=True)
    assert done.stdout == "" and "hunter2" not in done.stderr
    return done.stderr.splitlines()


def test_json_lines_have_the_event_and_its_fields():
    first, *others = map(json.loads, lines("json"))
    assert (first["level"], first["event"], first["epoch"], first["partitions"]) == ("warning", "late", 7, [1, 2])
    assert first["message"] == "an epoch is late" and first["time"].endswith("Z")
    assert len(others) == 2, "one line for each client that repeats itself"


def test_text_lines_end_with_the_fields():
    first, *others = lines("text")
    assert "WARNING an epoch is late epoch=7 partitions=[1, 2]" in first and len(others) == 2
