"""`millrace verify simulate`: the service's machine in a simulated world of broker, disk and clock, with faults by seed."""
