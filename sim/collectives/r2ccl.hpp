// R2CCL: what to do with a degraded server's traffic (arXiv 2512.25059): balance it over the NICs that are left, or
// keep it out of a part of the AllReduce that the other servers do among themselves.
#pragma once

#include "collectives/algorithm.hpp"

namespace slackline {

/// Forms (design/baselines.md 6.1), with X = 1 - 1/l the lost part of the degraded server's bandwidth, n = N/B, T0 the
/// ring without failures:
///   balance     a ring over all, at the speed of the NICs that are left: T = l T0 (allreduce, reduce_scatter, allgather).
///   allreduce   Stage 1: a ring over all servers for 1 - X of the message beside one over the healthy servers for the
///               rest. Stage 2: the degraded server's part of the rest is added and the total sent round, in K pieces
///               that follow each other. T = T0 + (1 + 1/K)(l - 1) n, which tends to the paper's T0 + (l - 1) n.
///
/// The model. The two rings share the NICs of the healthy servers as (1 - X) : X. Under `fair` sharing the number of
/// flows gives these rates, so that the rings are made of 1/(1-X) : .. parallel rings in proportion, as NCCL's channels
/// on the NICs are (shares are rounded to 32nds where their common denominator is larger); under `exclusive` sharing the
/// rates cannot be had, and the form takes longer than its formula. In stage 2 a piece is reduced onto all
/// healthy servers, a section each, not onto one root, and then gathered by all. The degraded server exchanges with as many
/// of them at a time as divide their number, at most 32, so that no healthy server holds it up; where no number of 2 to 32
/// does, the last exchanges are not all equally long and the form takes a little longer than its formula.
/// Several failures: the servers' bandwidths, in ascending order, cut the message into classes, each with a ring over
/// those servers that have more; this is R2CCL's recursion with its second stages side by side.
/// Several ranks per server: in slices, between an NVLink reduce-scatter and an NVLink allgather.
/// Options:
///   `form`           "balance", "allreduce" or "auto" (the default): the one with the least T by the formulas
///   `stage2_chunks`  K, 1 to 4096, default 4 (R2CC_AR_STAGE2_CHUNKS)
///   `rings`          of the balance form, as for the ring
///   `rounds`         of the allreduce form with several ranks per server: so many parts follow each other, so that
///                    NVLink works on one while NICs work on another; default 8
extern const Algorithm r2ccl_algorithm;

}  // namespace slackline
