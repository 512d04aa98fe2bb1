"""Jobs on PySpark: publishing workloads and files as epochs of chunks, and the accounting of what came out; docs/spark.md."""
