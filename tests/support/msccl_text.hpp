// Writes small MSCCL programs for tests.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "schedule/msccl.hpp"

namespace slackline {

/// `<algo>` piece by piece: gpu(), in it tb(), in it step().
class MscclText {
 public:
  MscclText(const char* coll, int ranks, int chunks, const char* protocol = "Simple") {
    out_ << "<algo name=\"t\" proto=\"" << protocol << "\" nchannels=\"4\" nchunksperloop=\"" << chunks << "\" ngpus=\"" << ranks << "\" coll=\"" << coll
         << "\" inplace=\"1\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\">\n";
  }
  MscclText& gpu(int id, int i, int o, int s) {
    close();
    out_ << "<gpu id=\"" << id << "\" i_chunks=\"" << i << "\" o_chunks=\"" << o << "\" s_chunks=\"" << s << "\">\n";
    gpu_ = true;
    blocks_ = 0;
    return *this;
  }
  MscclText& tb(int send, int receive, int channel = 0) {
    if (tb_) out_ << "</tb>\n";
    out_ << "<tb id=\"" << blocks_++ << "\" send=\"" << send << "\" recv=\"" << receive << "\" chan=\"" << channel << "\">\n";
    tb_ = true;
    steps_ = 0;
    return *this;
  }
  MscclText& step(const char* type, char src, int src_offset, char dst, int dst_offset, int count = 1, int dep = -1, int dep_step = -1, bool posts = false) {
    out_ << "<step s=\"" << steps_++ << "\" type=\"" << type << "\" srcbuf=\"" << src << "\" srcoff=\"" << src_offset << "\" dstbuf=\"" << dst << "\" dstoff=\"" << dst_offset
         << "\" cnt=\"" << count << "\" depid=\"" << dep << "\" deps=\"" << dep_step << "\" hasdep=\"" << posts << "\"/>\n";
    return *this;
  }
  std::string text() {
    close();
    return out_.str() + "</algo>\n";
  }
  MscclProgram program() {
    std::vector<Finding> findings;
    return read_msccl_xml(text(), "", MscclDialect::any, findings);
  }

 private:
  void close() {
    if (tb_) out_ << "</tb>\n";
    if (gpu_) out_ << "</gpu>\n";
    tb_ = gpu_ = false;
  }
  std::ostringstream out_;
  bool gpu_ = false, tb_ = false;
  int blocks_ = 0, steps_ = 0;
};

}  // namespace slackline
