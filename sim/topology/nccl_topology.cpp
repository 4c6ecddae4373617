#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/xml.hpp"
#include "topology/readers.hpp"

namespace slackline {

namespace {

// GB/s and Mbit/s of NCCL's tables are decimal.
Bandwidth gigabytes(double value) { return Bandwidth(static_cast<int64_t>(value * 8e9 + 0.5)); }

// Numbers of NCCL 2.2x src/graph/topo.h and topo.cc.
constexpr double loc_bandwidth = 5000;

class NcclReader {
 public:
  NcclReader(std::string_view text, const std::string& file, const TopologyReadOptions& options)
      : xml_(text, file), options_(options) {}
  TopologyFile read();

 private:
  struct Gpu {
    TopologyVertexId vertex;
    std::string busid;
    int dev = -1;
    int capability = 0;
    double link_bandwidth = 0;  // GB/s of one NVLink or xGMI link
    int most_links = 0;         // 0: not known
    pugi::xml_node node;        // null for a device without <gpu>
    TopologyVertexId cpu;
    int server;
  };
  struct Device {
    TopologyVertexId parent;
    TopologyVertexId cpu;
    int server;
    int depth;  // of PCIe switches
  };

  std::string text(const pugi::xml_node& node, const char* name) const { return node.attribute(name).value(); }
  int64_t number(const pugi::xml_node& node, const char* name, int64_t fallback, int64_t lowest, int64_t highest) const {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute) return fallback;
    return xml_integer(attribute.value(), "<" + std::string(node.name()) + "> " + name, xml_.where(node), lowest, highest);
  }
  void note(const std::string& message) {
    if (noted_.insert(message).second) file_.notes.push_back(message);
  }
  void link(TopologyVertexId a, TopologyVertexId b, LinkKind kind, Bandwidth bandwidth, int count = 1) {
    file_.topology.add_link(a, b, {kind, bandwidth, Duration(), count, Fraction(1)});
  }
  Bandwidth pci_bandwidth(const pugi::xml_node& node);
  void read_cpu(const pugi::xml_node& node);
  void read_pci(const pugi::xml_node& node, const Device& above);
  void read_nic(const pugi::xml_node& node, const Device& above, Bandwidth upstream, const std::string& busid);
  void add_nic(const Device& above, Bandwidth upstream, Bandwidth speed, const std::string& name);
  void connect_cpus();
  void connect_gpus();
  void connect_pcilinks();
  TopologyVertexId nvswitch(int server);

  XmlFile xml_;
  const TopologyReadOptions& options_;
  TopologyFile file_;
  std::set<std::string> noted_;
  std::map<std::string, int> servers_;  // by host_hash
  std::vector<std::pair<TopologyVertexId, pugi::xml_node>> cpus_;
  std::vector<Gpu> gpus_;
  std::map<std::string, TopologyVertexId> by_busid_;
  std::map<int, TopologyVertexId> nvswitches_;  // by server
  std::vector<std::pair<pugi::xml_node, TopologyVertexId>> pcilinks_;
  int nics_ = 0;
  std::set<std::string> busids_;
};

// The class as a number: 0x030200.
int64_t pci_class(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 16); }

Bandwidth NcclReader::pci_bandwidth(const pugi::xml_node& node) {
  static constexpr std::pair<std::string_view, int> rates[] = {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}};
  std::string speed = text(node, "link_speed");
  int rate = 60;
  if (const size_t unit = speed.find(" GT/s"); unit != std::string::npos) {
    std::string_view value = std::string_view(speed).substr(0, unit);
    if (value.ends_with(".0")) value.remove_suffix(2);
    const auto found = std::find_if(std::begin(rates), std::end(rates), [&](const auto& entry) { return entry.first == value; });
    if (found != std::end(rates)) rate = found->second;
    else note("an unknown PCIe speed is taken as 8 GT/s, as NCCL does");
  } else if (options_.pcie_bandwidth) {
    return *options_.pcie_bandwidth;
  } else {
    note("a PCIe link without speed is taken as 8 GT/s, as NCCL does");
  }
  int64_t width = number(node, "link_width", 16, 0, 64);
  if (width == 0) width = 16;
  return gigabytes(static_cast<double>(width * rate) / 80);
}

void NcclReader::read_cpu(const pugi::xml_node& node) {
  const auto [server, fresh] = servers_.try_emplace(text(node, "host_hash"), static_cast<int>(servers_.size()));
  const std::string numa = text(node, "numaid");
  const TopologyVertexId cpu = file_.topology.add_vertex(VertexKind::cpu, server->second, "cpu " + (numa.empty() ? std::to_string(cpus_.size()) : numa));
  cpus_.emplace_back(cpu, node);
  const Device here{cpu, cpu, server->second, 0};
  for (const pugi::xml_node& child : node.children()) {
    const std::string_view name = child.name();
    if (name == "pci") read_pci(child, here);
    if (name == "nic") read_nic(child, here, gigabytes(loc_bandwidth), "");
  }
}

void NcclReader::add_nic(const Device& above, Bandwidth upstream, Bandwidth speed, const std::string& name) {
  if (++nics_ > 4096) xml_.fail(cpus_.back().second, "has more than 4096 NICs");
  const TopologyVertexId nic = file_.topology.add_vertex(VertexKind::nic, above.server, name);
  link(above.parent, nic, LinkKind::pcie, upstream);
  const TopologyVertexId network = file_.topology.add_vertex(VertexKind::net_switch, -1, "network at " + name);
  link(nic, network, LinkKind::network, speed);
}

void NcclReader::read_nic(const pugi::xml_node& node, const Device& above, Bandwidth upstream, const std::string& busid) {
  Device here = above;
  const auto nets = std::distance(node.children("net").begin(), node.children("net").end());
  if (nets > 1) {  // they share the slot
    here.parent = file_.topology.add_vertex(VertexKind::pcie_switch, above.server, busid);
    link(above.parent, here.parent, LinkKind::pcie, upstream);
  }
  for (const pugi::xml_node& net : node.children("net")) {
    int64_t speed = number(net, "speed", 0, INT32_MIN, INT32_MAX);  // Mbit/s
    Bandwidth bandwidth(speed * 1'000'000);
    if (speed <= 0 && options_.nic_bandwidth) {
      bandwidth = *options_.nic_bandwidth;
    } else if (speed <= 0) {
      bandwidth = Bandwidth(10'000'000'000);
      note("a NIC without speed is taken as 10 Gb/s, as NCCL does");
    }
    std::string name = text(net, "name");
    if (name.empty()) name = "net" + (net.attribute("dev") ? text(net, "dev") : std::to_string(nics_));
    add_nic(here, upstream, bandwidth, name);
  }
}

void NcclReader::read_pci(const pugi::xml_node& node, const Device& above) {
  const std::string busid = text(node, "busid");
  if (busid.empty()) xml_.fail(node, "<pci> lacks the attribute \"busid\"");
  const bool fresh_busid = busids_.insert(busid).second;
  if (!fresh_busid) note("two devices have busid " + busid);
  const int64_t device_class = pci_class(text(node, "class"));
  const Bandwidth upstream = pci_bandwidth(node);
  const pugi::xml_node gpu = node.child("gpu");
  const int64_t base = device_class >> 16;
  if (gpu || base == 0x03) {
    if (!fresh_busid) xml_.fail(node, "the GPU has busid " + busid + ", which another device has");
    Gpu entry;
    entry.server = above.server;
    entry.cpu = above.cpu;
    entry.busid = busid;
    entry.node = gpu;
    entry.dev = static_cast<int>(number(gpu, "dev", -1, -1, 1 << 20));
    entry.capability = static_cast<int>(number(gpu, "sm", 0, 0, 1 << 20));
    if (options_.compute_capability) entry.capability = options_.compute_capability;
    entry.vertex = file_.topology.add_vertex(VertexKind::gpu, above.server, busid);
    if (const pugi::xml_attribute gcn = gpu.attribute("gcn")) {  // AMD: `sm` counts compute units there
      const std::string_view name = gcn.value();
      const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
      entry.link_bandwidth = is("94") || is("95") ? 48 : is("90a") || is("910") ? 36 : 24;
    } else if (entry.capability > 0) {
      entry.link_bandwidth = static_cast<double>(nvlink_bandwidth(entry.capability).count()) / 8e9;
      entry.most_links = nvlinks_of(entry.capability);
    }
    link(above.parent, entry.vertex, LinkKind::pcie, upstream);
    by_busid_[busid] = entry.vertex;
    if (!gpu) note("GPUs without <gpu>: a static file for virtual machines, to which NCCL adds NVLinks and speeds when it runs");
    gpus_.push_back(std::move(entry));
    return;
  }
  if (const pugi::xml_node nic = node.child("nic"); nic && nic.child("net")) {
    read_nic(nic, above, upstream, busid);
    return;
  }
  if (base == 0x02) {
    Bandwidth speed = upstream;
    if (options_.nic_bandwidth) speed = *options_.nic_bandwidth;
    else note("NICs without <net> have no speed in the file; they are taken as fast as their PCIe link");
    add_nic(above, upstream, speed, busid);
    return;
  }
  const TopologyVertexId vertex = file_.topology.add_vertex(VertexKind::pcie_switch, above.server, busid);
  by_busid_[busid] = vertex;
  link(above.parent, vertex, LinkKind::pcie, upstream);
  const Device here{vertex, above.cpu, above.server, above.depth + 1};
  if (here.depth > 32) xml_.fail(node, "<pci> stands inside more than 32 others");
  for (const pugi::xml_node& child : node.children()) {
    const std::string_view name = child.name();
    if (name == "pci") read_pci(child, here);
    if (name == "pcilink") pcilinks_.emplace_back(child, vertex);
  }
}

// Between sockets, in GB/s.
double cpu_bandwidth(const std::string& arch, const std::string& vendor, int64_t model) {
  if (arch == "arm64") return 6;
  if (arch == "ppc64") return 32;
  if (vendor == "AuthenticAMD") return 16;
  if (vendor == "CentaurHauls") return 6;
  if (vendor == "  Shanghai  ") return 9;
  if (model >= 0xCF) return 40;
  if (model >= 0x8F) return 22;
  return model >= 0x55 ? 10 : 6;
}

void NcclReader::connect_cpus() {
  for (size_t a = 0; a < cpus_.size(); ++a) {
    for (size_t b = a + 1; b < cpus_.size(); ++b) {
      if (file_.topology.graph[cpus_[a].first].server != file_.topology.graph[cpus_[b].first].server) continue;
      const pugi::xml_node& node = cpus_[a].second;
      const double speed = cpu_bandwidth(text(node, "arch"), text(node, "vendor"), number(node, "modelid", 0, INT32_MIN, INT32_MAX));
      link(cpus_[a].first, cpus_[b].first, LinkKind::pcie, gigabytes(speed));
    }
  }
}

TopologyVertexId NcclReader::nvswitch(int server) {
  if (const auto found = nvswitches_.find(server); found != nvswitches_.end()) return found->second;
  return nvswitches_[server] = file_.topology.add_vertex(VertexKind::nvswitch, server, "nvswitch");
}

void NcclReader::connect_gpus() {
  std::map<std::string, size_t> index;
  for (size_t g = 0; g < gpus_.size(); ++g) index[gpus_[g].busid] = g;
  std::map<std::pair<size_t, size_t>, std::pair<int, pugi::xml_node>> direct;  // links, and where they are named
  for (size_t g = 0; g < gpus_.size(); ++g) {
    const Gpu& gpu = gpus_[g];
    int links = 0, switched = 0, to_cpu = 0;
    for (const pugi::xml_node& node : gpu.node.children()) {
      const std::string_view kind = node.name();
      if (kind == "c2c") {
        const double speed = static_cast<double>(number(node, "bw", 0, 0, INT32_MAX)) * static_cast<double>(number(node, "count", 1, 1, 1024)) / 1000;
        if (speed > 0) link(gpu.vertex, gpu.cpu, LinkKind::nvlink, gigabytes(speed));
        continue;
      }
      if (kind != "nvlink" && kind != "xgmi") continue;
      const std::string target = text(node, "target");
      const auto count = static_cast<int>(number(node, "count", 1, 0, 1024));
      const int64_t target_class = pci_class(text(node, "tclass"));
      if (count == 0) continue;
      if (gpu.link_bandwidth <= 0) xml_.fail(gpu.node, "the GPU has NVLinks but no \"sm\", so their speed is not known; give the compute capability");
      links += count;
      if (target == gpu.busid) xml_.fail(node, "the GPU " + gpu.busid + " has a link to itself");
      if (target_class == 0x068000 || target.starts_with("fffffff:")) {
        switched += count;
      } else if (target_class == 0x068001) {
        to_cpu += count;
      } else if (const auto found = index.find(target); found != index.end()) {
        auto& [total, where] = direct[{g, found->second}];
        total += count;
        where = node;
      } else {
        xml_.fail(node, "the link of " + gpu.busid + " leads to " + target + ", which is no GPU of this file");
      }
    }
    if (gpu.most_links > 0 && links > gpu.most_links)
      xml_.fail(gpu.node, "the GPU " + gpu.busid + " names " + std::to_string(links) + " NVLinks, but one of compute capability " +
                              std::to_string(gpu.capability) + " has " + std::to_string(gpu.most_links));
    if (switched > 0) link(gpu.vertex, nvswitch(gpu.server), LinkKind::nvlink, gigabytes(switched * gpu.link_bandwidth), switched);
    if (to_cpu > 0) link(gpu.vertex, gpu.cpu, LinkKind::nvlink, gigabytes(to_cpu * gpu.link_bandwidth), to_cpu);
  }
  for (const auto& [ends, links] : direct) {
    const Gpu &a = gpus_[ends.first], &b = gpus_[ends.second];
    const auto reverse = direct.find({ends.second, ends.first});
    const int back = reverse == direct.end() ? 0 : reverse->second.first;
    if (back != links.first)
      xml_.fail(links.second, a.busid + " names " + std::to_string(links.first) + " links to " + b.busid + ", which names " +
                                  std::to_string(back) + " back: a link has two ends");
    if (ends.first < ends.second) link(a.vertex, b.vertex, LinkKind::nvlink, gigabytes(links.first * a.link_bandwidth), links.first);
  }
}

void NcclReader::connect_pcilinks() {
  std::set<std::pair<TopologyVertexId, TopologyVertexId>> done;
  for (const auto& [node, vertex] : pcilinks_) {
    const auto target = by_busid_.find(text(node, "target"));
    if (target == by_busid_.end()) xml_.fail(node, "<pcilink> leads to " + text(node, "target") + ", which is not in this file");
    if (target->second == vertex) xml_.fail(node, "<pcilink> leads to its own switch");
    if (!done.insert(std::minmax(vertex, target->second)).second) continue;
    link(vertex, target->second, LinkKind::pcie, pci_bandwidth(node.parent()));
  }
}

TopologyFile NcclReader::read() {
  const pugi::xml_node system = xml_.document().child("system");
  if (!system) xml_.fail(xml_.document(), "has no <system>, so it is no NCCL topology");
  const int64_t version = number(system, "version", 0, INT64_MIN, INT64_MAX);
  if (version != 1 && version != 2) xml_.fail(system, "has version " + std::to_string(version) + "; NCCL writes 1, RCCL 2");
  file_.format = version == 1 ? "NCCL topology" : "RCCL topology";
  for (const pugi::xml_node& node : system.children("cpu")) read_cpu(node);
  if (gpus_.empty())
    xml_.fail(system, "describes no GPU: no <pci> has a <gpu> or the class of one (0x03...); NCCL fills such files in when it runs, so dump its topology "
                      "with NCCL_TOPO_DUMP_FILE and read that");

  // CUDA numbers by bus id; a dump says so itself.
  const bool numbered = std::all_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.dev >= 0; });
  std::stable_sort(gpus_.begin(), gpus_.end(), [&](const Gpu& a, const Gpu& b) {
    if (a.server != b.server) return a.server < b.server;
    return numbered ? a.dev < b.dev : a.busid < b.busid;
  });
  std::map<std::pair<int, int>, std::string> names;
  for (const Gpu& gpu : gpus_) {
    if (numbered && !names.emplace(std::pair{gpu.server, gpu.dev}, gpu.busid).second)
      xml_.fail(gpu.node, "the GPUs " + names.at({gpu.server, gpu.dev}) + " and " + gpu.busid + " are both dev=\"" + std::to_string(gpu.dev) + "\"");
  }
  for (TopologyServer& server : file_.topology.servers) server.gpus.clear();
  for (const Gpu& gpu : gpus_) {
    auto& list = file_.topology.servers[static_cast<size_t>(gpu.server)].gpus;
    file_.topology.graph[gpu.vertex].index = static_cast<int>(list.size());
    file_.topology.graph[gpu.vertex].name = "gpu " + std::to_string(list.size()) + " (" + gpu.busid + ")";
    list.push_back(gpu.vertex);
  }
  connect_cpus();
  connect_gpus();
  connect_pcilinks();
  file_.topology.name = text(system, "name").empty() ? file_.format : text(system, "name");
  return std::move(file_);
}

}  // namespace

Bandwidth nvlink_bandwidth(int compute_capability) {
  if (compute_capability >= 100) return gigabytes(40.1);
  if (compute_capability >= 90) return gigabytes(20.6);
  if (compute_capability == 86) return gigabytes(12);
  return gigabytes(compute_capability >= 70 ? 20 : 18);
}

int nvlinks_of(int compute_capability) {
  if (compute_capability >= 90) return 18;
  if (compute_capability == 86) return 4;
  if (compute_capability >= 80) return 12;
  return compute_capability >= 70 ? 6 : 4;
}

TopologyFile read_nccl_topology(std::string_view text, const std::string& file, const TopologyReadOptions& options) {
  TopologyFile result = NcclReader(text, file, options).read();
  result.topology = replicate_server(result.topology, options.servers);
  return result;
}

}  // namespace slackline
