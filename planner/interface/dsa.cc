// The planner's C interface: arrays to value types and back. Cold; no state.
#include "dsa/dsa.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <new>
#include <string>

#include "dsa/planner.h"
#include "dsa/validate.h"

#define DSA_EXPORT extern "C" __attribute__((visibility("default")))

struct dsa_stop {
  std::atomic<bool> set{false};
};

namespace {

constexpr int64_t kNone = -1;

dsa_status refuse(dsa_result* result, dsa_status status, int64_t row, const std::string& message) {
  result->row = row;
  std::snprintf(result->message, sizeof result->message, "%s", message.c_str());
  return status;
}

int64_t row_of(std::size_t index) {
  return static_cast<int64_t>(index);
}

void clear(dsa_result* result) {
  *result = {};
  result->height = result->row = kNone;
}

// Enters the gaps, which belong to any buffers in any order.
dsa_status read_gaps(const dsa_problem& given, dsa::Problem& problem, dsa_result* result) {
  for (std::size_t j = 0; j < given.gap_count; ++j) {
    const int64_t buffer = given.gap_buffer[j];
    if (buffer < 0 || static_cast<std::size_t>(buffer) >= given.count) {
      return refuse(result, DSA_BAD_INPUT, row_of(j),
                    "gap " + std::to_string(j) + " is of buffer " + std::to_string(buffer) +
                        ", which is not there");
    }
    problem.buffers[static_cast<std::size_t>(buffer)].gaps.push_back(
        {given.gap_lower[j], given.gap_upper[j]});
  }
  return DSA_OK;
}

dsa_status read(const dsa_problem& given, dsa::Problem& problem, dsa_result* result) {
  problem.buffers.resize(given.count);
  for (std::size_t i = 0; i < given.count; ++i) {
    dsa::Buffer& buffer = problem.buffers[i];
    buffer.lower = given.lower[i];
    buffer.upper = given.upper[i];
    buffer.size = given.size[i];
    buffer.alignment = given.alignment != nullptr ? given.alignment[i] : 1;
    if (given.fixed != nullptr && given.fixed[i] != kNone) {
      buffer.fixed = given.fixed[i];
    }
  }
  if (const dsa_status status = read_gaps(given, problem, result); status != DSA_OK) {
    return status;
  }
  const dsa::Verdict verdict = dsa::validate(problem);
  if (!verdict) {
    return refuse(result, DSA_BAD_INPUT, row_of(verdict.i),
                  "buffer " + std::to_string(verdict.i) + ": " + verdict.reason);
  }
  return DSA_OK;
}

// Runs `work`, and says of what it throws that there was not enough memory: nothing else is thrown.
template <typename Work>
dsa_status guarded(dsa_result* result, Work&& work) noexcept {
  clear(result);
  try {
    return work();
  } catch (...) {
    result->height = kNone;
    return refuse(result, DSA_NO_PLAN, kNone, "not enough memory");
  }
}

}  // namespace

DSA_EXPORT dsa_status dsa_plan(const dsa_problem* given, const dsa_options* options,
                               int64_t* offsets, dsa_result* result) {
  return guarded(result, [&] {
    const char* name = options->planner != nullptr ? options->planner : "portfolio";
    const dsa::Planner* planner = dsa::find_planner(name);
    if (planner == nullptr) {
      return refuse(result, DSA_BAD_INPUT, kNone,
                    std::string("there is no planner '") + name + "'");
    }
    if (!(options->seconds > 0) || std::isinf(options->seconds)) {
      return refuse(result, DSA_BAD_INPUT, kNone, "seconds must be greater than 0, and finite");
    }
    if (options->capacity < kNone) {
      return refuse(result, DSA_BAD_INPUT, kNone, "the capacity is less than nothing");
    }
    dsa::Problem problem;
    if (const dsa_status status = read(*given, problem, result); status != DSA_OK) {
      return status;
    }
    dsa::Options how{.seconds = options->seconds, .seed = options->seed};
    if (options->capacity != kNone) {
      how.capacity = options->capacity;
    }
    how.stop = options->stop != nullptr ? &options->stop->set : nullptr;
    const dsa::Outcome outcome = planner->run(problem, how);
    result->lower_bound = outcome.lower_bound;
    result->optimal = outcome.optimal ? 1 : 0;
    result->infeasible = outcome.infeasible ? 1 : 0;
    result->seconds = outcome.seconds;
    if (!outcome.plan) {
      return refuse(result, DSA_NO_PLAN, kNone, std::string(outcome.reason));
    }
    if (const dsa::Verdict verdict = dsa::validate(problem, *outcome.plan); !verdict) {
      return refuse(result, DSA_NO_PLAN, row_of(verdict.i),
                    "a planner's mistake: " + verdict.reason);
    }
    result->height = outcome.plan->height;
    std::copy(outcome.plan->offsets.begin(), outcome.plan->offsets.end(), offsets);
    return DSA_OK;
  });
}

DSA_EXPORT dsa_status dsa_validate(const dsa_problem* given, const int64_t* offsets,
                                   dsa_result* result) {
  return guarded(result, [&] {
    dsa::Problem problem;
    if (const dsa_status status = read(*given, problem, result); status != DSA_OK) {
      return status;
    }
    dsa::Plan plan{{offsets, offsets + given->count}, 0};
    for (std::size_t i = 0; i < given->count; ++i) {
      if (offsets[i] > std::numeric_limits<int64_t>::max() - given->size[i]) {
        return refuse(result, DSA_NO_PLAN, row_of(i),
                      "buffer " + std::to_string(i) + ": it ends beyond 64 bits");
      }
      plan.height = std::max(plan.height, offsets[i] + given->size[i]);
    }
    result->height = plan.height;
    result->lower_bound = dsa::lower_bound(problem);
    const dsa::Verdict verdict = dsa::validate(problem, plan);
    if (verdict) {
      return DSA_OK;
    }
    const std::string other = verdict.i == verdict.j ? "" : " and " + std::to_string(verdict.j);
    return refuse(result, DSA_NO_PLAN, row_of(verdict.i),
                  "buffer " + std::to_string(verdict.i) + other + ": " + verdict.reason);
  });
}

DSA_EXPORT dsa_status dsa_lower_bound(const dsa_problem* given, dsa_result* result) {
  return guarded(result, [&] {
    dsa::Problem problem;
    const dsa_status status = read(*given, problem, result);
    result->lower_bound = status == DSA_OK ? dsa::lower_bound(problem) : 0;
    return status;
  });
}

DSA_EXPORT const char* dsa_planner(std::size_t index) {
  // Names are literals of planners.def, so each ends with a zero.
  return index < dsa::planners().size() ? dsa::planners()[index].name.data() : nullptr;
}

DSA_EXPORT int dsa_version() {
  return DSA_VERSION;
}

DSA_EXPORT dsa_stop* dsa_stop_new() {
  return new (std::nothrow) dsa_stop;
}

DSA_EXPORT void dsa_stop_set(dsa_stop* stop) {
  stop->set.store(true, std::memory_order_relaxed);
}

DSA_EXPORT void dsa_stop_free(dsa_stop* stop) {
  delete stop;
}
