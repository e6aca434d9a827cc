"""Generators of workloads: traffic patterns, collectives, training jobs, arrivals.

Each adds its tasks to a `Builder` and returns ids, so that they chain: what a collective returns per rank is what the
next phase of that rank waits for.
"""

from softmrc.sim.workloads.alltoall import all_to_all
from softmrc.sim.workloads.arrivals import poisson_flows
from softmrc.sim.workloads.bandwidth import alg_bandwidth, bus_bandwidth, bus_factor
from softmrc.sim.workloads.hierarchical import hierarchical_all_reduce
from softmrc.sim.workloads.pattern import incast, permutation, permutation_pairs, send_recv_ring
from softmrc.sim.workloads.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from softmrc.sim.workloads.training import training_job
from softmrc.sim.workloads.tree import broadcast, tree_all_reduce

__all__ = [
    "alg_bandwidth",
    "all_to_all",
    "broadcast",
    "bus_bandwidth",
    "bus_factor",
    "hierarchical_all_reduce",
    "incast",
    "permutation",
    "permutation_pairs",
    "poisson_flows",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "send_recv_ring",
    "training_job",
    "tree_all_reduce",
]
