#include "preload/nodes.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "preload/lane_threads.h"
#include "preload/process.h"
#include "preload/weights.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/io/node_maps.h"
#include "src/io/team.h"
#include "src/serve/lasting.h"
#include "src/serve/remaking.h"
#include "src/serve/residence.h"
#include "src/serve/writers.h"

namespace memo {
namespace {

// What was done for a lane's slab last.
struct Brought {
  const char* base = nullptr;  // of the slab
  std::uint64_t height = 0;
  std::uint64_t releases = 0;  // of its lane's slab by then
  NodeSet nodes = 0;
  std::uint32_t tries = 0;  // in a row that have not brought it all there
  // Where pages cannot be moved: bytes that were made ready anew, and some are left whose blocks were
  // in use.
  std::uint64_t remade = 0;
  bool left = false;

  [[nodiscard]] bool same(const Brought& other) const {
    return base == other.base && height == other.height && releases == other.releases &&
           nodes == other.nodes;
  }
};

constinit Topology topology;
constinit NodeCalls node_calls;
constinit Team team;
constinit Writers writers[tuning::kMaxLanes];  // of each lane's slab
constinit Writers everyone;                    // who reads the weights
constinit Brought brought[tuning::kMaxLanes];
constinit std::atomic<bool> one_node{false};  // that the process may use
constinit std::uint32_t turn = 0;
constinit std::uint32_t counted_at = UINT32_MAX;    // in that turn
constinit NodeRange ranges[1 + tuning::kMaxLanes];  // by then: the pool, and each lane's slab
constinit bool moves = true;                        // the system lets pages be asked for, and moved
constinit bool by_policy = false;  // the program, or who started it, says itself where memory lies
constinit NodeBytes weights;
constinit NodeFigures figures[2];
constinit std::atomic<const NodeFigures*> told{nullptr};

Counters& counters() {
  return *g_process.engine.lanes.shared().passed_on;
}

// A look at where a lane's writers are: its thread, and others that work and have no such slab.
NodeSet see_writers(std::uint32_t number, Lane& lane) {
  const Whereabouts::Seen seen = lane.slab().writers.take();
  if (g_process.options.NUMA == Numa::kLocal || seen.nodes == 0) {
    return seen.most;
  }
  const NodeSet helpers = team.nodes([&](std::uint32_t thread) {
    const Engine& engine = g_process.engine;
    for (std::uint32_t i = 0; i < engine.lanes.count(); ++i) {
      if (thread_of_lane(i) == thread) {
        return i != number &&
               engine.lanes.at(i).slab_height() * tuning::kOwnSlabShare < lane.slab_height();
      }
    }
    return true;
  });
  return seen.nodes | helpers;
}

void note_refusal(const char* what) {
  counters().node_refused.add_from_any();
  if (g_process.options.VERBOSE >= 1) {
    Line() << "memory nodes: the system does not let " << what;
  }
}

// Counts where all lies, and finds out whether that is for us to say. Once a turn.
void count() {
  if (counted_at == turn) {
    return;
  }
  counted_at = turn;
  const Pool& pool = g_process.engine.lanes.shared().pool;
  const std::uint64_t each = pool.space().bytes();
  const std::uint32_t lanes = g_process.engine.lanes.count();
  ranges[0] = {reinterpret_cast<std::uint64_t>(pool.space().base()), each, {}, false};
  for (std::uint32_t i = 0; i < lanes; ++i) {
    const Space& slab = g_process.engine.lanes.at(i).slab_space();
    ranges[1 + i] = {reinterpret_cast<std::uint64_t>(slab.base()), each, {}, false};
  }
  if (!read_node_maps({ranges, lanes + 1})) {
    return;
  }
  by_policy = false;
  NodeFigures& next = figures[told.load(std::memory_order_relaxed) == &figures[0] ? 1 : 0];
  next = {topology.usable(), {}, ranges[0].found, weights};
  for (std::uint32_t i = 0; i <= lanes; ++i) {
    by_policy = by_policy || ranges[i].by_policy;
    for (std::uint32_t node = 0; i != 0 && node < kMaxNodes; ++node) {
      next.slabs.on[node] += ranges[i].found.on[node];
    }
  }
  told.store(&next, std::memory_order_release);
}

// Brings a slab to the nodes where pages cannot be moved, as far as its blocks come free. Adds to
// `now` what was done; a refusal counts as all that may be done.
void remake(Lane& lane, NodeSet nodes, Brought& now) {
  const std::uint64_t height = now.height;
  const Residence residence(topology, node_calls);
  Remaking remaking(residence, nodes, height);
  bool there = true;
  for (std::uint32_t round = 0; round < tuning::kRemakeRounds && there && !remaking.finished();
       ++round) {
    for (std::uint64_t at = 0; at < height && there; at += Remaking::kStripe) {
      lane.with_slab([&](const Slab& slab) { there = remaking.take(slab, at); });
      remaking.make_ready();
    }
    os::rest(5 * os::kMillisecond);
  }
  counters().node_remade_bytes.add_from_any(remaking.bytes());
  if (remaking.refused()) {
    note_refusal("its thread be bound to a node");
  }
  now.remade += remaking.refused() ? tuning::kMaxTries * height : remaking.bytes();
  now.left = remaking.bytes() != 0 && !remaking.finished();
}

void bring_slab(std::uint32_t number, Lane& lane, NodeSet nodes) {
  Brought& before = brought[number];
  Brought now{lane.slab_space().base(), lane.slab_height(), lane.counters.released.get(), nodes};
  if (nodes == 0 || now.height < tuning::kMinMoved) {
    before = {};
    return;
  }
  now.tries = now.same(before) ? before.tries : 0;
  if (moves && now.tries < tuning::kMaxTries) {
    const Residence::Moved moved =
        Residence(topology, node_calls).move(lane.slab_space().base(), now.height, nodes);
    counters().node_moved_bytes.add_from_any(moved.bytes);
    now.tries = moved.strays && moved.bytes == 0 ? now.tries + 1 : 0;
    if (moved.refused) {
      moves = false;
      note_refusal("pages be moved; what is free is made ready anew");
    }
  }
  if (!moves) {
    const Brought last = now.same(before) ? before : Brought{};
    now.remade = last.remade;
    if (!now.same(before) || last.left) {
      count();
    }
    if (counted_at == turn && now.remade < tuning::kMaxTries * now.height &&
        Residence::lies_wrong(ranges[1 + number].found, nodes)) {
      remake(lane, nodes, now);
    }
  }
  before = now;
}

// Weights that are shared are never known: they are left to the kernel, which may hold one page for
// several processes.
void bring_weights(NodeSet nodes) {
  if (!weights_known() || !moves) {
    return;
  }
  const Pool& pool = g_process.engine.lanes.shared().pool;
  const Residence residence(topology, node_calls);
  const bool counted = turn % tuning::kTurnsACount == 1;
  NodeBytes found;
  LastingBlocks::List list;
  Granules at;
  for (bool more = true; more;) {
    more = LastingBlocks(pool).list(at, list);
    for (std::uint32_t i = 0; i < list.count; ++i) {
      char* const start = pool.space().address(list.runs[i].first);
      const std::uint64_t bytes = bytes_of(list.runs[i].count);
      if (nodes != 0 && bytes >= tuning::kMinMoved) {
        counters().node_moved_bytes.add_from_any(residence.move(start, bytes, nodes).bytes);
      }
      if (counted) {
        residence.count(start, bytes, found);
      }
    }
  }
  if (counted) {
    weights = found;
  }
}

}  // namespace

void bring_to_nodes(const RecursionGuard&) {
  const Shared& shared = g_process.engine.lanes.shared();
  const NodesKnown& nodes = shared.slabs.nodes;
  if (nodes.topology.load(std::memory_order_relaxed) == nullptr) {
    topology.read();
    if (!several(topology.usable())) {
      one_node = true;
      return;
    }
    nodes.topology.store(&topology, std::memory_order_release);
  }
  const Numa mode = g_process.options.NUMA;
  if (mode == Numa::kAuto) {
    team.look(topology);
  }
  if (++turn % tuning::kTurnsACount == 2) {
    count();
  }
  if (by_policy && mode == Numa::kAuto) {
    return;
  }
  NodeSet all = 0;
  for (std::uint32_t i = 0; i < shared.lanes_taken(); ++i) {
    Lane& lane = shared.lanes[i];
    const NodeSet seen = see_writers(i, lane);
    all |= seen;
    writers[i].look(seen);
    const NodeSet home = mode == Numa::kInterleave ? topology.usable() : writers[i].settled();
    lane.slab().writers.set_apart(several(home));
    bring_slab(i, lane, home);
  }
  everyone.look(all);
  if (mode != Numa::kLocal) {
    bring_weights(mode == Numa::kInterleave ? topology.usable() : everyone.settled());
  }
}

bool nodes_matter() {
  return g_process.engine.lanes.opened() && g_process.engine.lanes.shared().slabs.nodes.several &&
         !one_node;
}

const NodeFigures* node_figures() {
  return told.load(std::memory_order_acquire);
}

void forget_nodes() {
  team.forget();
  std::fill(std::begin(writers), std::end(writers), Writers());
  std::fill(std::begin(brought), std::end(brought), Brought());
  everyone = {};
  weights = {};
  told = nullptr;
  turn = 0;
  counted_at = UINT32_MAX;
}

}  // namespace memo
