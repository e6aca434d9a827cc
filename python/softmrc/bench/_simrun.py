"""One simulation of `softmrc bench sim`, in a process of its own so that its memory is its own.

Called as `python -m softmrc.bench._simrun MATRIX TOPOLOGY MBPS SEED [alike]`; prints one JSON object. With `alike`
switches hash EVs and mark from 25 to 100 KB, as htsim's do.
"""

from __future__ import annotations

import json
import sys
import time

ECN_BYTES = (25_000, 100_000)
"""Where marks begin and are certain in the queues of htsim's recorded runs."""


def main(matrix: str, topology: str, mbps: str, seed: str, fabric: str = "") -> None:
    """Simulate a matrix with MRC and NSCC and print its figures."""
    begun = time.monotonic()
    import numpy as np

    from softmrc.sim.matrix_run import MatrixRun
    from softmrc.sim.result.execute import execute
    from softmrc.sim.result.percentiles import summary

    alike = fabric == "alike"
    run = MatrixRun(
        matrix=matrix,
        topology=topology,
        link_mbps=int(mbps),
        seed=int(seed),
        hashed=alike,
        ecn_bytes=ECN_BYTES if alike else None,
    )
    plan = run.plan()
    cpu = time.process_time()
    outcome = execute(plan).outcome
    cpu = time.process_time() - cpu
    done = outcome.tasks["acked_ns"] >= 0
    # As htsim counts: until the sender has the last acknowledgement.
    times = summary((outcome.tasks["acked_ns"] - outcome.tasks["posted_ns"])[done], scale=1e-3)
    made = {
        "stopped": outcome.stopped,
        "flows_done": int(np.count_nonzero(done)),
        "data_packets": outcome.totals["data_packets"],
        "rtx": outcome.totals["data_packets_rtx"],
        "hops": outcome.hops,
        "wall_s": outcome.wall_s,
        "cpu_s": cpu,
        "process_s": time.monotonic() - begun,
        "peak_rss_mib": outcome.peak_rss_mib,
        "completion_us": {key: times.get(key) for key in ("p50", "p99", "max")},
    }
    print(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
