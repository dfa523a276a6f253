// What the simulated libnccl claims, seen from inside and, as the agent sees it, from outside.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "rung_sim/identity.h"
#include "sim/child.h"

namespace rung::sim {
namespace {

constexpr ncclDataType_t kFloat64 = 8;

// Offsets of NCCL 2.28.9, spelled out a second time: a wrong one in the fake must not agree here.
constexpr std::size_t kCommHash = 1066184, kRank = 1066192, kRanks = 1066196,
                      kAsyncResult = 1069044, kInitState = 1075672, kSeqNumber = 1075728,
                      kCommBytes = 1082968;
constexpr int kSeqAllGather = 2, kSeqAllReduce = 4;

template <class T>
std::optional<T> peek(pid_t pid, std::uint64_t address) {
  T value{};
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(address), sizeof value};
  const ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return got == static_cast<ssize_t>(sizeof value) ? std::optional(value) : std::nullopt;
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string nccl_path() { return std::string(RUNG_SIM_TEST_HOME) + "/libnccl.so.2"; }

// Link-time address of a symbol of .symtab.
std::uint64_t symbol_address(const std::string& elf, const char* name) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(elf.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(elf.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* names = elf.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(elf.data() + sections[i].sh_offset);
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      if (std::strcmp(names + symbols[s].st_name, name) == 0) return symbols[s].st_value;
    }
  }
  return 0;
}

// Where the library begins in the process.
std::uint64_t load_address(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libnccl.so.2") != line.npos) return std::stoull(line, nullptr, 16);
  }
  return 0;
}

class SimNccl : public testing::Test {
 protected:
  // Two children that run the same body with their rank.
  void run_pair(const std::function<int(Child&, int)>& body) {
    Child zero(folder_.path(), [&](Child& self) { return body(self, 0); });
    Child one(folder_.path(), [&](Child& self) { return body(self, 1); });
    EXPECT_EQ(zero.join(), 0);
    EXPECT_EQ(one.join(), 0);
  }
  TempFolder folder_;
};

TEST_F(SimNccl, SaysWhoItIs) {
  const std::string elf = file_bytes(nccl_path());
  EXPECT_NE(elf.find("simulated-nccl2.28.9"), elf.npos);
  EXPECT_NE(elf.find("NCCL version 2.28.9+cuda13.0"), elf.npos);
  EXPECT_EQ(std::string(kNcclBuildId).size(), 40u);
  Child child(folder_.path(), [](Child&) {
    Nccl nccl;
    int version = 0;
    SIM_CHECK(nccl.ncclGetVersion(&version) == 0 && version == kNcclVersionCode);
    SIM_CHECK(::dlsym(nccl.library, "ncclAllReduce") == ::dlsym(nccl.library, "pncclAllReduce"));
    SIM_CHECK(::dlsym(nccl.library, "rung_simulated") != nullptr);
    return 0;
  });
  EXPECT_EQ(child.join(), 0);
}

TEST_F(SimNccl, AnAllReduceJoinsTwoProcesses) {
  run_pair([](Child&, int rank) {
    Cuda cuda(rank);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, rank);
    double value = rank == 0 ? 1.5 : 2.25, sum = 0;
    for (int i = 0; i < 50; ++i) {
      SIM_CHECK(nccl.ncclAllReduce(&value, &sum, 1, kFloat64, ncclSum, comm, cuda.stream) == 0);
      SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
      SIM_CHECK(sum == 3.75);
    }
    SIM_CHECK(nccl.ncclAllReduce(&value, &sum, 1, kFloat64, ncclAvg, comm, cuda.stream) == 0);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0 && sum == 1.875);
    SIM_CHECK(nccl.ncclCommDestroy(comm) == 0);
    return 0;
  });
}

TEST_F(SimNccl, ACollectiveWaitsForTheOtherRank) {
  Child zero(folder_.path(), [](Child& self) {
    Cuda cuda(0);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, 0);
    double value = 1;
    SIM_CHECK(nccl.ncclAllReduce(&value, &value, 1, kFloat64, ncclSum, comm, cuda.stream) == 0);
    ::usleep(100000);
    self.send(cuda.cuStreamQuery(cuda.stream));
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    return 0;
  });
  Child one(folder_.path(), [](Child& self) {
    Cuda cuda(1);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, 1);
    double value = 1;
    self.receive<int>();
    SIM_CHECK(nccl.ncclAllReduce(&value, &value, 1, kFloat64, ncclSum, comm, cuda.stream) == 0);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    return 0;
  });
  EXPECT_EQ(zero.receive<CUresult>(), CUDA_ERROR_NOT_READY);
  one.send(0);
  EXPECT_EQ(one.join(), 0);
  EXPECT_EQ(zero.join(), 0);
}

TEST_F(SimNccl, DifferentSizesWedgeBothUntilTheyAbort) {
  run_pair([](Child&, int rank) {
    Cuda cuda(rank);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, rank);
    std::vector<double> values(16);
    const std::size_t count = rank == 0 ? 8 : 4;
    SIM_CHECK(nccl.ncclAllReduce(values.data(), values.data(), count, kFloat64, ncclSum, comm,
                                 cuda.stream) == 0);
    ::usleep(200000);
    SIM_CHECK(cuda.cuStreamQuery(cuda.stream) == CUDA_ERROR_NOT_READY);
    SIM_CHECK(nccl.ncclCommAbort(comm) == 0);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    return 0;
  });
}

TEST_F(SimNccl, AKilledPeerMakesTheOtherWait) {
  Child one(folder_.path(), [](Child& self) {
    Cuda cuda(1);
    Nccl nccl;
    nccl.connect(2, 1);
    self.send(0);
    return self.receive<int>();
  });
  Child zero(folder_.path(), [](Child& self) {
    Cuda cuda(0);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, 0);
    self.receive<int>();
    double value = 1;
    SIM_CHECK(nccl.ncclAllReduce(&value, &value, 1, kFloat64, ncclSum, comm, cuda.stream) == 0);
    ::usleep(100000);
    self.send(cuda.cuStreamQuery(cuda.stream));
    return 0;
  });
  one.receive<int>();
  ::kill(one.pid(), SIGKILL);
  EXPECT_EQ(one.join(), 128 + SIGKILL);
  zero.send(0);
  EXPECT_EQ(zero.receive<CUresult>(), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(zero.join(), 0);
}

TEST_F(SimNccl, InitBlocksUntilAllRanksCameAndTheBlockSaysSo) {
  const std::string elf = file_bytes(nccl_path());
  const auto rank_body = [](int rank) {
    return [rank](Child& self) {
      Cuda cuda(rank);
      Nccl nccl;
      self.send(1);
      ncclComm_t comm = nccl.connect(2, rank);
      self.send(comm);
      self.receive<int>();
      SIM_CHECK(nccl.ncclCommDestroy(comm) == 0);
      self.send(2);
      self.receive<int>();
      return 0;
    };
  };
  Child zero(folder_.path(), rank_body(0));
  zero.receive<int>();
  ::usleep(50000);
  const std::uint64_t list = load_address(zero.pid()) + symbol_address(elf, "ncclComms");
  const std::uint64_t length = load_address(zero.pid()) + symbol_address(elf, "nNcclComms");
  EXPECT_EQ(peek<int>(zero.pid(), length), 0) << "listed before rank 1 came";

  Child one(folder_.path(), rank_body(1));
  one.receive<int>();
  const auto comm = reinterpret_cast<std::uint64_t>(zero.receive<ncclComm_t>());
  const auto other = reinterpret_cast<std::uint64_t>(one.receive<ncclComm_t>());
  EXPECT_EQ(peek<int>(zero.pid(), length), 32);
  const auto array = peek<std::uint64_t>(zero.pid(), list);
  ASSERT_TRUE(array);
  EXPECT_EQ(peek<std::uint64_t>(zero.pid(), *array), comm);
  EXPECT_EQ(peek<std::uint64_t>(zero.pid(), comm), kNcclMagic);
  EXPECT_EQ(peek<std::uint64_t>(zero.pid(), comm + kCommBytes - 8), kNcclMagic);
  EXPECT_EQ(peek<int>(zero.pid(), comm + kRank), 0);
  EXPECT_EQ(peek<int>(one.pid(), other + kRank), 1);
  EXPECT_EQ(peek<int>(zero.pid(), comm + kRanks), 2);
  EXPECT_EQ(peek<int>(zero.pid(), comm + kInitState), 0);
  EXPECT_EQ(peek<int>(zero.pid(), comm + kAsyncResult), 0);
  const auto hash = peek<std::uint64_t>(zero.pid(), comm + kCommHash);
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(hash, peek<std::uint64_t>(one.pid(), other + kCommHash));

  zero.send(0);
  one.send(0);
  EXPECT_EQ(zero.receive<int>(), 2);
  EXPECT_EQ(peek<std::uint64_t>(zero.pid(), *array), 0u) << "still listed after its destruction";
  EXPECT_NE(peek<std::uint64_t>(zero.pid(), comm), kNcclMagic);
  zero.send(0);
  one.send(0);
  EXPECT_EQ(zero.join(), 0);
  EXPECT_EQ(one.join(), 0);
}

TEST_F(SimNccl, CountersMoveAtTheGroupsEndAndAreSeenFromOutside) {
  const auto body = [](int rank) {
    return [rank](Child& self) {
      Cuda cuda(rank);
      Nccl nccl;
      ncclComm_t comm = nccl.connect(2, rank);
      std::vector<double> values(8);
      const auto reduce = [&] {
        return nccl.ncclAllReduce(values.data(), values.data(), 1, kFloat64, ncclSum, comm,
                                  cuda.stream);
      };
      for (int i = 0; i < 5; ++i) SIM_CHECK(reduce() == 0);
      SIM_CHECK(nccl.ncclAllGather(values.data(), values.data(), 1, kFloat64, comm, cuda.stream) ==
                0);
      SIM_CHECK(nccl.ncclGroupStart() == 0);
      SIM_CHECK(reduce() == 0 && reduce() == 0);
      self.send(comm);
      self.receive<int>();
      SIM_CHECK(nccl.ncclGroupEnd() == 0);
      // Neither counted: point to point, what is built on it, and calls without elements.
      SIM_CHECK(nccl.ncclAlltoAll(values.data(), values.data(), 1, kFloat64, comm, cuda.stream) ==
                0);
      SIM_CHECK(nccl.ncclAllReduce(values.data(), values.data(), 0, kFloat64, ncclSum, comm,
                                   cuda.stream) == 0);
      SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
      self.send(0);
      self.receive<int>();
      return 0;
    };
  };
  Child zero(folder_.path(), body(0)), one(folder_.path(), body(1));
  const auto comm = reinterpret_cast<std::uint64_t>(zero.receive<ncclComm_t>());
  const auto counter = [&](int index) {
    return peek<std::uint64_t>(zero.pid(), comm + kSeqNumber + 8u * static_cast<unsigned>(index));
  };
  EXPECT_EQ(counter(kSeqAllReduce), 5u);
  EXPECT_EQ(counter(kSeqAllGather), 1u);
  one.receive<ncclComm_t>();
  zero.send(0);
  one.send(0);
  zero.receive<int>();
  one.receive<int>();
  EXPECT_EQ(counter(kSeqAllReduce), 7u);
  EXPECT_EQ(counter(kSeqAllGather), 1u);
  EXPECT_EQ(counter(0), 0u);
  zero.send(0);
  one.send(0);
  EXPECT_EQ(zero.join(), 0);
  EXPECT_EQ(one.join(), 0);
}

TEST_F(SimNccl, CapturedCollectivesRunAtReplayAndAreNotCounted) {
  run_pair([](Child&, int rank) {
    Cuda cuda(rank);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, rank);
    double value = 1, sum = 0;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    SIM_CHECK(cuda.cuStreamBeginCapture_v2(cuda.stream, 0) == 0);
    SIM_CHECK(nccl.ncclAllReduce(&value, &sum, 1, kFloat64, ncclSum, comm, cuda.stream) == 0);
    SIM_CHECK(cuda.cuStreamEndCapture(cuda.stream, &graph) == 0);
    SIM_CHECK(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    for (int i = 1; i <= 3; ++i) {
      value = i;
      SIM_CHECK(cuda.cuGraphLaunch(exec, cuda.stream) == 0);
      SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
      SIM_CHECK(sum == 2 * i);
    }
    SIM_CHECK(comm->seqNumber[kSeqAllReduce] == 0);
    SIM_CHECK(cuda.cuGraphExecDestroy(exec) == 0 && cuda.cuGraphDestroy(graph) == 0);
    SIM_CHECK(nccl.ncclCommDestroy(comm) == 0);
    return 0;
  });
}

TEST_F(SimNccl, ChildrenOfASplitHaveOneHashPerColour) {
  struct Result {
    std::uint64_t world, child;
    int child_ranks, child_rank;
  };
  const auto body = [](int rank) {
    return [rank](Child& self) {
      Cuda cuda(rank);
      Nccl nccl;
      ncclComm_t world = nccl.connect(4, rank), child = nullptr, none = nullptr;
      // The key reverses the order inside a group.
      SIM_CHECK(nccl.ncclCommSplit(world, rank / 2, -rank, &child, nullptr) == 0);
      SIM_CHECK(nccl.ncclCommSplit(world, -1, 0, &none, nullptr) == 0 && none == nullptr);
      Result result{world->commHash, child->commHash, 0, 0};
      SIM_CHECK(nccl.ncclCommCount(child, &result.child_ranks) == 0);
      SIM_CHECK(nccl.ncclCommUserRank(child, &result.child_rank) == 0);
      double value = rank, sum = 0;
      SIM_CHECK(nccl.ncclAllReduce(&value, &sum, 1, kFloat64, ncclSum, child, cuda.stream) == 0);
      SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
      SIM_CHECK(sum == (rank < 2 ? 1 : 5));
      self.send(result);
      return 0;
    };
  };
  Child a(folder_.path(), body(0)), b(folder_.path(), body(1)), c(folder_.path(), body(2)),
      d(folder_.path(), body(3));
  const auto ra = a.receive<Result>(), rb = b.receive<Result>(), rc = c.receive<Result>(),
             rd = d.receive<Result>();
  EXPECT_EQ(ra.world, rd.world);
  EXPECT_EQ(ra.child, rb.child);
  EXPECT_EQ(rc.child, rd.child);
  EXPECT_NE(ra.child, rc.child);
  EXPECT_NE(ra.child, ra.world);
  EXPECT_EQ(ra.child_ranks, 2);
  EXPECT_EQ(ra.child_rank, 1);
  EXPECT_EQ(rb.child_rank, 0);
  for (Child* child : {&a, &b, &c, &d}) EXPECT_EQ(child->join(), 0);
}

TEST_F(SimNccl, SendWaitsForItsReceive) {
  run_pair([](Child&, int rank) {
    Cuda cuda(rank);
    Nccl nccl;
    ncclComm_t comm = nccl.connect(2, rank);
    double value = 0;
    // Rank 1 receives late; both sides end together.
    if (rank == 1) ::usleep(100000);
    const auto before = comm->seqNumber[kSeqAllReduce];
    SIM_CHECK((rank == 0 ? nccl.ncclSend(&value, 1, kFloat64, 1, comm, cuda.stream)
                         : nccl.ncclRecv(&value, 1, kFloat64, 0, comm, cuda.stream)) == 0);
    if (rank == 0) SIM_CHECK(cuda.cuStreamQuery(cuda.stream) == CUDA_ERROR_NOT_READY);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    SIM_CHECK(comm->seqNumber[kSeqAllReduce] == before);
    SIM_CHECK(nccl.ncclSend(&value, 1, kFloat64, 7, comm, cuda.stream) == ncclInvalidArgument);
    return 0;
  });
}

TEST_F(SimNccl, OneProcessMayHoldAllRanks) {
  Child child(folder_.path(), [](Child&) {
    Cuda cuda;
    Nccl nccl;
    ncclComm_t comms[3] = {};
    SIM_CHECK(nccl.ncclCommInitAll(comms, 3, nullptr) == 0);
    CUstream streams[3] = {};
    double values[3] = {1, 2, 4}, sums[3] = {};
    SIM_CHECK(nccl.ncclGroupStart() == 0);
    for (int i = 0; i < 3; ++i) {
      SIM_CHECK(cuda.cuStreamCreate(&streams[i], 0) == 0);
      SIM_CHECK(nccl.ncclAllReduce(&values[i], &sums[i], 1, kFloat64, ncclSum, comms[i],
                                   streams[i]) == 0);
    }
    SIM_CHECK(nccl.ncclGroupEnd() == 0);
    for (CUstream stream : streams) SIM_CHECK(cuda.cuStreamSynchronize(stream) == 0);
    SIM_CHECK(sums[0] == 7 && sums[1] == 7 && sums[2] == 7);
    SIM_CHECK(comms[2]->cudaDev == 2);
    for (ncclComm_t comm : comms) SIM_CHECK(nccl.ncclCommDestroy(comm) == 0);
    return 0;
  });
  EXPECT_EQ(child.join(), 0);
}

}  // namespace
}  // namespace rung::sim
