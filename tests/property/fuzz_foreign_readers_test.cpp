// Damaged input for every reader of schedules and topologies: whatever the bytes, either a result or an Error, soon, and
// without asking for memory out of proportion. Meant to run under sanitizers too. SLACKLINE_FUZZ sets how many (default 2000).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "schedule/foreign_schedules.hpp"
#include "schedule/message_program.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/msccl_export.hpp"
#include "schedule/mscclpp_check.hpp"
#include "support/msccl_text.hpp"
#include "topology/readers.hpp"

namespace slackline {
namespace {

struct Seed {
  std::string text;
  void (*read)(const std::string& text);
};

void read_algorithm(const std::string& text) {
  std::vector<Finding> findings;
  const MscclProgram program = read_msccl_xml(text, "fuzz", MscclDialect::any, findings);
  MscclCheckOptions options;
  options.size = Bytes(1 << 20);
  const MscclReport report = check_msccl(program, options, findings);
  if (report.structure_ok && report.one_node.progress != MscclProgress::never) parse_schedule_msccl(text, "fuzz");
}
void read_nccl(const std::string& text) { read_nccl_topology(text, "fuzz", {}); }
void read_smi(const std::string& text) { read_nvidia_smi_matrix(text, "fuzz", {}); }
void read_ns3(const std::string& text) { read_ns3_topology(text, "fuzz"); }
void read_astra(const std::string& text) { read_astra_network(text, "fuzz"); }
void read_graph(const std::string& text) { validate(parse_nccl_graph(text, "fuzz")); }
void read_flows(const std::string& text) { validate(parse_te_ccl(text, "fuzz")); }
void read_trees(const std::string& text) { validate(parse_forest(text, "fuzz")); }
void read_program(const std::string& text) { check_messages(read_goal(text, "fuzz")); }
void read_traces(const std::string& text) {
  MessageProgram program;
  for (int rank = 0; rank < 2; ++rank) read_chakra_rank(text, "fuzz", program);
  check_messages(program);
}
void read_plan(const std::string& text) {
  std::vector<Finding> findings;
  const MscclppPlan plan = read_mscclpp_plan(text, "fuzz", findings);
  MscclppCheckOptions options;
  options.size = Bytes(1 << 20);
  check_mscclpp(plan, options, findings);
}

std::vector<Seed> seeds() {
  MscclText algorithm("allreduce", 2, 2);
  for (int r = 0; r < 2; ++r) {
    algorithm.gpu(r, 2, 2, 2).tb(1 - r, 1 - r).step("s", 'i', 0, 's', 0, 2, -1, -1, true).step("r", 's', 0, 's', 0, 2, -1, -1, true);
    algorithm.tb(-1, -1).step("nop", 'i', 0, 'i', 0, 1, 0, 0).step("re", 's', 0, 'i', 0, 2, 0, 1, true).step("cpy", 'i', 0, 'o', 0, 2);
  }
  return {
      {algorithm.text(), read_algorithm},
      {R"(<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" modelid="79"><pci busid="0:1" class="0x060400" link_speed="8 GT/s" link_width="16">
<pci busid="0:2" class="0x030200"><gpu dev="0" sm="70" rank="0"><nvlink target="0:3" count="2" tclass="0x030200"/></gpu></pci>
<pci busid="0:3" class="0x030200"><gpu dev="1" sm="70" rank="1"><nvlink target="0:2" count="2" tclass="0x030200"/></gpu></pci>
<pci busid="0:4" class="0x020000"><nic><net name="mlx5_0" dev="0" speed="100000"/></nic></pci></pci></cpu></system>)",
       read_nccl},
      {"\tGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\nGPU0\t X \tNV2\tSYS\tPIX\t0-3\nGPU1\tNV2\t X \tNV1\tSYS\t0-3\nGPU2\tSYS\tNV1\t X \tPHB\t4-7\nmlx5_0\tPIX\tSYS\tPHB\t X \n\nLegend:\n", read_smi},
      {"4 2 1 1 4 H100\n2 3\n0 2 2880Gbps 0.000025ms 0\n1 2 2880Gbps 0.000025ms 0\n0 3 400Gbps 0.0005ms 0\n1 3 400Gbps 1us 0\n", read_ns3},
      {"topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 2, 3, 4 ]  # c\nbandwidth: [ 200.0, 100.0, 50.0 ]\nlatency: [ 50.0, 500.0, 2000.0 ]\n", read_astra},
      {R"(<graphs version="1"><graph id="0" pattern="4" nchannels="2"><channel><gpu dev="0"/><gpu dev="1"/><gpu dev="a"/></channel><channel><gpu dev="a"/><gpu dev="1"/><gpu dev="0"/></channel></graph></graphs>)", read_graph},
      {R"({"1-Epoch_Duration": 1.0, "7-Flows": ["Chunk 0 from 0 traveled over 0->1 in epoch 0", "Chunk 0 from 1 traveled over 1->0 with volume 1.0 in epoch 1"], "8-Chunk paths": {"Demand at 1 for chunk 0 from 0 met by epoch 0": [], "Demand at 0 for chunk 0 from 1 met by epoch 1": []}})", read_flows},
      {R"({"1-Epoch_Duration": 1.0, "6-Flows": ["Chunk 1 from 0 traveled over 0->1 with volume 0.5 in epoch 0"], "7-chunk paths": {"Demand at 1 for chunk 1 from 0 met by epoch 9": [[[0, "0->1 with volume 0.5 in epoch 0"]], [[1, "0->1 with volume 0.5 in epoch 1"]]], "Demand at 0 for chunk 0 from 1 met by epoch 1": [[[0, "1->0 with volume 1.0 in epoch 0"]]]}})", read_flows},
      {R"x(<Algo nchunkspernode="2"><tree root="(0, 'GPU', 0)" index="0" nchunks="2" height="1"><send src="(0, 'GPU', 0)" dst="(0, 'GPU', 1)" path="a"/></tree><tree root="(0, 'GPU', 1)" index="0" nchunks="2" height="1"><send src="(0, 'GPU', 1)" dst="(0, 'GPU', 0)" path="a"/></tree></Algo>)x", read_trees},
      {"num_ranks 3 // c\nrank 0 { l1: send 8b to 1 tag 5 l2: calc 5 l2 irequires l1 }\nrank 1 { l1: recv 8b from 0 tag 5 cpu 1 l2: send 8b to 2 tag 5 /* c */ l2 requires l1 }\nrank 2 { recv 8b from -1 tag -1 }\n", read_program},
      // Nodes of one rank: a send to rank 2 (which there is not), and work that waits for it.
      {std::string("\x03" "abc" "\x1c" "\x08\x00" "\x12\x01n" "\x18\x05" "\x52\x0c\x0a\x08" "comm_dst" "\x48\x02" "\x52\x05\x0a\x01x\x48\x01" "\x06" "\x08\x01" "\x18\x04" "\x28\x00", 40), read_traces},
      {R"({"name": "a", "collective": "allreduce", "protocol": "Simple", "inplace": true, "reuse_resources": true, "gpus": [
{"id": 0, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 2, "channels": [{"channel_type": "memory", "connected_to": [1]}, {"channel_type": "switch", "buffer_type": "s", "rank_groups": [{"size": 2, "ranks": [0, 1]}]}],
 "remote_buffers": [{"rank": 1, "type": "i", "access_channel_types": ["memory"]}], "semaphores": [{"init_value": 1}], "threadblocks": [{"id": 0, "channels": [{"channel_type": "memory", "channel_ids": [0]}, {"channel_type": "switch", "channel_ids": [0]}],
 "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}], "ops": [{"name": "pipeline", "iter_context": {"unit_size": 4194304, "num_chunks": 1}, "ops": [{"name": "sem_acquire", "semaphore_ids": [0]}, {"name": "nop"},
 {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}], "dst_buff": [{"type": "s", "index": 0, "size": 1}]}, {"name": "nop"}, {"name": "sem_release", "semaphore_ids": [0]}]},
 {"name": "signal", "channel_ids": [0], "channel_type": "memory"}, {"name": "wait", "channel_ids": [0], "channel_type": "memory"}, {"name": "nop"},
 {"name": "rres", "src_buff": [{"type": "i", "index": 0, "size": 1}, {"buffer_id": 0, "index": 0, "size": 1}], "dst_buff": [{"type": "i", "index": 0, "size": 1}, {"buffer_id": 0, "index": 0, "size": 1}], "channel_type": "memory", "tbg_info": {"tb_id": 0, "tbg_size": 1}},
 {"name": "nop"}, {"name": "signal", "channel_ids": [0], "channel_type": "memory"}, {"name": "wait", "channel_ids": [0], "channel_type": "memory"}]}]},
{"id": 1, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 2, "channels": [{"channel_type": "memory", "connected_to": [0]}], "remote_buffers": [], "threadblocks": [{"id": 0, "channels": [{"channel_type": "memory", "channel_ids": [0]}], "ops": [
 {"name": "signal", "channel_ids": [0], "channel_type": "memory"}, {"name": "wait", "channel_ids": [0], "channel_type": "memory"}, {"name": "signal", "channel_ids": [0], "channel_type": "memory"}, {"name": "wait", "channel_ids": [0], "channel_type": "memory"}]}]}]})", read_plan},
      {R"({"name": "b", "colletive": "allreduce", "protocol": "LL", "inplace": true, "gpus": [{"id": 0, "inputChunks": 2, "outputChunks": 0, "scratchChunks": 4, "channels": [{"srcbuff": "i", "dstbuff": "s", "type": "sm", "connectedTo": [1]}],
 "threadblocks": [{"id": 0, "channels": [{"src": "i", "dst": "s", "ctype": "sm", "cids": [0]}], "ops": [{"name": "ppkt", "o_buff": {"src": "i", "dst": "s"}, "o_cids": [{"id": 0, "off": 0}], "srcs": [{"buff": "i", "off": 0}], "ctype": "sm", "cnt": 2},
 {"name": "rspkt", "o_buff": {"src": "i", "dst": "s"}, "o_cids": [], "src": 0, "srcs": [{"buff": "s", "off": 2}], "srcbuff": "i", "srcoff": 0, "dst": 0, "dstbuff": "i", "dstoff": 0, "ctype": "sm", "cnt": 2}]}]},
 {"id": 1, "inputChunks": 2, "outputChunks": 0, "scratchChunks": 4, "channels": [{"srcbuff": "i", "dstbuff": "s", "type": "sm", "connectedTo": [0]}],
 "threadblocks": [{"id": 0, "channels": [{"src": "i", "dst": "s", "ctype": "sm", "cids": [0]}], "ops": [{"name": "ppkt", "o_buff": {"src": "i", "dst": "s"}, "o_cids": [{"id": 0, "off": 2}], "srcs": [{"buff": "i", "off": 0}], "ctype": "sm", "cnt": 2},
 {"name": "nop", "deps": [{"tb": 0, "step": 0}]}, {"name": "rspkt", "o_buff": {"src": "i", "dst": "s"}, "o_cids": [], "src": 0, "srcs": [{"buff": "s", "off": 0}], "srcbuff": "i", "srcoff": 0, "dst": 0, "dstbuff": "i", "dstoff": 0, "ctype": "sm", "cnt": 2}]}]}]})", read_plan},
  };
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  std::string apply(std::string text) {
    const size_t times = 1 + below(4);
    for (size_t i = 0; i < times && !text.empty(); ++i) once(text);
    return text;
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  void once(std::string& text) {
    static const std::string pieces[] = {"9223372036854775807", "9223372036854775808", "-1", "4294967296", "2147483648", "1e308", "nan", "<", ">", "\"", "/>", "<!--", "-->",
                                         "<![CDATA[", "&amp;", "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\">]>", "{", "[", "]", "\xff\xfe", std::string("\0", 1), "GPU0", "NV99", " ", "\n", "\t"};
    const size_t at = below(text.size());
    switch (below(9)) {
      case 0: text[at] = static_cast<char>(below(256)); break;
      case 1: text.erase(at, 1 + below(20)); break;
      case 2: text.resize(at); break;
      case 3: text.insert(at, text.substr(below(text.size()), 1 + below(120))); break;
      case 4: text.insert(at, pieces[below(std::size(pieces))]); break;
      case 5: {  // another number
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        size_t end = digit;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
        text.replace(digit, end - digit, below(2) ? pieces[below(6)] : std::to_string(below(100)));
        break;
      }
      case 6: {  // deep nesting
        std::string deep;
        for (size_t k = 0; k < 2000; ++k) deep += below(2) ? "<pci busid=\"x\">" : "<tb>";
        text.insert(at, deep);
        break;
      }
      case 7: text.insert(at, std::string(1 + below(3000), "[{<0 "[below(5)])); break;
      case 8: std::swap(text[at], text[below(text.size())]); break;
    }
  }
  std::mt19937_64 random_;
};

TEST(FuzzForeignReaders, DamagedInputIsAnErrorOrAResult) {
  const char* setting = std::getenv("SLACKLINE_FUZZ");
  const size_t rounds = setting ? std::strtoull(setting, nullptr, 10) : 2000;
  const std::vector<Seed> list = seeds();
  for (const Seed& seed : list) EXPECT_NO_THROW(seed.read(seed.text)) << seed.text;
  Damage damage(7);
  size_t errors = 0, results = 0;
  for (size_t i = 0; i < rounds; ++i) {
    const Seed& seed = list[i % list.size()];
    const std::string text = damage.apply(seed.text);
    const auto begin = std::chrono::steady_clock::now();
    try {
      seed.read(text);
      ++results;
    } catch (const Error&) {
      ++errors;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "an exception that is no Error: " << error.what() << "\n" << text.substr(0, 4000);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << text.substr(0, 4000);
  }
  // Damage that always or never shows would test nothing.
  EXPECT_GT(errors, rounds / 10);
  EXPECT_GT(results, rounds / 50);
}

// Entities that expand each other, a bomb for readers that expand them.
TEST(FuzzForeignReaders, EntitiesAreNotExpanded) {
  std::string text = "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\">";
  for (char c = 'b'; c <= 'z'; ++c) {
    text += std::string("<!ENTITY ") + c + " \"";
    for (int i = 0; i < 10; ++i) text += std::string("&") + static_cast<char>(c - 1) + ";";
    text += "\">";
  }
  text += "]><algo nchunksperloop=\"1\" name=\"&z;\"/>";
  std::vector<Finding> findings;
  EXPECT_EQ(read_msccl_xml(text, "bomb", MscclDialect::any, findings).name, "&z;");
}

}  // namespace
}  // namespace slackline
