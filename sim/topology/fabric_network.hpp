// The Network of a topology with every NIC, port and switch in it, for playing schedules on a fabric whose parts
// fail one by one; network.hpp's build_network() has a rank's share of its server's NICs instead.
#pragma once

#include "topology/network.hpp"

namespace slackline {

/// How transfers between servers find their way.
struct FabricOptions {
  /// A transfer uses the NICs of its GPU. Where they are dead or slow, it takes from the others of the server what makes all its
  /// GPUs equally well off. True: all NICs always.
  bool stripe = false;
  /// Between NICs that share no switch: over NVLink to a GPU whose NIC does (NCCL's PXN), at the source if there is such a
  /// NIC alive, else at the destination. False, or where there is none: over the switches above.
  bool pxn = true;
  /// Of equally short ways through the switches a transfer takes all, in proportion to their links' rates, as packets that are
  /// sprayed ideally do. False: one of them, chosen by a hash of `seed` and the two ranks (ECMP). Several ports of a NIC,
  /// and parallel links between two switches, are always used together.
  bool spray = false;
  uint64_t seed = 1;
  /// Every rank has a link for its reductions, so that a GPU can become slow later.
  bool reductions = false;
};

/// Ranks and their numbers as in build_network(); besides them the other GPUs of their servers, NVSwitches, PCIe, NICs and
/// all switches are vertices. Dead links are there with capacity 0: networks of one topology in different states have the
/// same vertices and links. Which NICs are a GPU's own: those that are nearest over PCIe, or where there is no PCIe, or
/// several GPUs have the same nearest, by position. Where the topology has no PCIe, ways twice as wide as the NICs, no limit, stand for it. A link that a
/// topology's `health` leaves with less than 1 b/s is dead. Throws Error{input} as chosen_gpus() does.
Network build_fabric_network(const Topology& topology, const RankSelection& selection, const FabricOptions& options);

}  // namespace slackline
