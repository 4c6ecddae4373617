#include "bounds/demand.hpp"

#include <algorithm>

namespace slackline {

Demand::Demand(const BoundRequest& request)
    : type_(request.collective.type),
      ranks_(request.collective.ranks),
      root_(request.collective.root),
      size_(request.size.count()) {
  const MessageLayout layout(request.size, request.element, ranks_);
  for (int q = 0; q < ranks_; ++q) parts_.push_back(layout.offset(q + 1) - layout.offset(q));
  least_part_ = *std::min_element(parts_.begin(), parts_.end());
}

Demand::Set Demand::set_of(const std::vector<int>& ranks) const {
  Set set;
  for (const int rank : ranks) {
    ++set.ranks;
    set.parts += part(rank);
    set.root |= rank == root_;
  }
  return set;
}

Wide Demand::leaving(const Set& set) const {
  if (set.ranks == 0 || set.ranks == ranks_) return 0;
  switch (type_) {
    case CollectiveType::allreduce:
      return size_;
    case CollectiveType::broadcast:
      return set.root ? size_ : 0;
    case CollectiveType::reduce:
      return set.root ? 0 : size_;
    case CollectiveType::allgather:
      return set.parts;
    case CollectiveType::reduce_scatter:
      return size_ - set.parts;
    case CollectiveType::gather:
      return set.root ? 0 : set.parts;
    case CollectiveType::scatter:
      return set.root ? size_ - set.parts : 0;
    // Rank q's part r comes from rank r's part q; the two differ in size by an element where p does
    // not divide the message, so only the smallest part is certain.
    case CollectiveType::alltoall:
      return Wide(set.ranks) * (ranks_ - set.ranks) * least_part_;
  }
  return 0;
}

bool Demand::must_reach(int from, int to) const {
  if (from == to || size_ == 0) return false;
  switch (type_) {
    case CollectiveType::allreduce:
      return true;
    case CollectiveType::broadcast:
      return from == root_;
    case CollectiveType::reduce:
      return to == root_;
    case CollectiveType::allgather:
      return part(from) > 0;
    case CollectiveType::reduce_scatter:
      return part(to) > 0;
    case CollectiveType::gather:
      return to == root_ && part(from) > 0;
    case CollectiveType::scatter:
      return from == root_ && part(to) > 0;
    case CollectiveType::alltoall:
      return least_part_ > 0;
  }
  return false;
}

}  // namespace slackline
