"""The one place that makes a SparkSession: Kafka's jars, loopback, quiet; inside spark-submit it takes what is there.

    with spark_session(settings.read(arguments).spark) as spark: ...

`python -m spark_jobs.session` prints the jars, for `spark-submit --jars`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from rich.console import Console

from services.errors import ProgramError
from services.kafka.jars import spark_jars
from services.kafka.programs import find_java
from services.settings import SparkSettings

# Spark logs what it deems unusual as a warning at every start; what matters to a job comes as its exception.
_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c{1}: %m%n%ex{short}
"""
# A Java client that cannot reach Kafka says so line after line, and the job reports it anyway.
_LOGGING += "logger.network.name = org.apache.kafka.clients.NetworkClient\nlogger.network.level = off\n"


@contextmanager
def spark_session(settings: SparkSettings, console: Console | None = None) -> Iterator[SparkSession]:
    """A session for as long as the body runs."""
    console = console or Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="millrace-spark-") as folder:
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit runs us: jars and master are its options
            spark = SparkSession.builder.appName("millrace").getOrCreate()
        else:
            find_java()
            jars = spark_jars(console)
            with console.status("starting Spark …"):
                spark = _start(settings, jars, Path(folder))
        try:
            yield spark
        finally:
            spark.stop()
            _end_java()


def configuration(settings: SparkSettings, jars: list[Path], folder: Path) -> SparkConf:
    """Everything that is set, each with its reason. `folder` is for this session's own files."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING, encoding="ascii")
    conf = SparkConf(loadDefaults=False).setMaster(settings.master).setAppName("millrace")
    values = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.memory": f"{settings.memory_mb}m",
        # Nothing listens to the outside, and no name has to be looked up.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",  # 200 empty tasks would be most of a small job's time
        # A chunk is a row of about a quarter of a megabyte: batches of Spark's 10,000 would hold gigabytes.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    if not settings.master.startswith("local"):
        values.pop("spark.driver.host")
        values.pop("spark.driver.bindAddress")
    conf.setAll(list(values.items()))
    return conf


def _start(settings: SparkSettings, jars: list[Path], folder: Path) -> SparkSession:
    # Spark's Python workers are to be this Python, with these libraries.
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(variable, sys.executable)
    conf = configuration(settings, jars, folder)
    log = None
    try:
        if settings.log is not None:
            settings.log.parent.mkdir(parents=True, exist_ok=True)
            log = settings.log.open("ab")
        output = {"stdout": log or sys.stderr.fileno(), "stderr": log}
        gateway = launch_gateway(conf, output)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ProgramError(f"{settings.log or 'Spark'} cannot be opened: {error.strerror}") from error
    except Exception as error:
        raise ProgramError(
            f"Spark did not start ({type(error).__name__}); see {settings.log or 'the lines above'}"
        ) from error
    finally:
        if log is not None:
            log.close()
    return SparkSession(SparkContext(gateway=gateway, conf=conf))


def _end_java() -> None:
    """Ends the Java process too, which would otherwise live as long as this one."""
    gateway = SparkContext._gateway
    if gateway is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if process is not None and process.stdin is not None:
        process.stdin.close()  # what Java waits for
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    print(",".join(map(str, spark_jars())))
