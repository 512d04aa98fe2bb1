"""TP, Toll Processing: Linear Road, simplified (MorphStream section 8.1, TStream section VI-A).

`RoadSpeed` updates a segment's running average; `VehicleCount` adds to its set of vehicles; `TollNotification` reads
both and computes the toll: where traffic is slow and dense, 2 (vehicles - 50)^2, else nothing. The set is a table of
(segment, vehicle) pairs beside its size. An impossible speed or vehicle is refused: the workload's aborts. `region`
parts the segments into groups that the engine may schedule on their own (the paper's nested workload).
"""

# mypy: allow-untyped-defs
# (user functions are typed by numba when they are declared)

from millrace import Application, boolean, float64, int64, udf
from services.apps.busy import busy

SLOW_BELOW = 40.0  # miles an hour; Linear Road's own figure
DENSE_ABOVE = 50  # vehicles; Linear Road's own figure


def build(
    busy_iterations: int = 0,
    slow_below: float = SLOW_BELOW,
    dense_above: int = DENSE_ABOVE,
    grouped: bool = False,
) -> Application:
    """Declares toll processing; `grouped` declares that regions share no segment."""
    app = Application("toll-processing")

    @udf
    def average_in(segment, report):
        segment.reports += 1
        segment.average += (report.speed - segment.average) / segment.reports
        return busy(report.speed, busy_iterations) and report.speed >= 0

    @udf
    def count_if_new(segment, report, pair):
        if not pair.present:
            segment.vehicles += 1
        return busy(report.vehicle, busy_iterations) and report.vehicle >= 0

    @udf
    def mark_present(pair, report):
        pair.present = True

    @udf
    def toll_of(notice, report, speed, count):
        notice.toll = 0
        if speed.reports > 0 and speed.average < slow_below and count.vehicles > dense_above:
            notice.toll = 2 * (count.vehicles - dense_above) ** 2
        return busy(report.vehicle, busy_iterations) and report.vehicle >= 0

    speeds = app.table("speeds", key=int, value={"average": float64, "reports": int64})
    counts = app.table("counts", key=int, value={"vehicles": int64})
    present = app.table("present", key=(int, int), value={"present": boolean})
    group_key = "region" if grouped else None
    app.event("RoadSpeed", {"region": int64, "segment": int64, "speed": int64})
    app.event("VehicleCount", {"region": int64, "segment": int64, "vehicle": int64})
    app.event("TollNotification", {"region": int64, "segment": int64, "vehicle": int64})

    @app.transaction("RoadSpeed", group_key=group_key)
    def road_speed(txn, event):
        txn.write(speeds[event.segment], average_in)

    @app.transaction("VehicleCount", group_key=group_key)
    def vehicle_count(txn, event):
        pair = present[event.segment, event.vehicle]
        txn.write(counts[event.segment], count_if_new, reads=[pair])
        txn.write(pair, mark_present)

    @app.transaction("TollNotification", output={"toll": int64}, group_key=group_key)
    def toll_notification(txn, event):
        txn.output(toll_of, reads=[speeds[event.segment], counts[event.segment]])

    return app
