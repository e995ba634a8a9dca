/* The planner for C, and for all that calls C: offline dynamic storage allocation (dsa/problem.h).
 *
 * Arrays of 64-bit integers go in and come out; nothing is kept between calls, nothing is printed,
 * and no exception leaves. Any number of threads may call at once. Each array has `count` elements
 * unless said otherwise, and is only read. Linked with -lmemomalloc-dsa. */
#ifndef DSA_DSA_H
#define DSA_DSA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this interface; dsa_version() tells the library's. */
#define DSA_VERSION 1

/* Names as C libraries have them. NOLINTBEGIN(readability-identifier-naming) */

typedef enum dsa_status {
  DSA_OK = 0,       /* there is a plan, or the plan is valid */
  DSA_NO_PLAN = 1,  /* none was found within the capacity or the time, or it is not valid */
  DSA_BAD_INPUT = 2 /* the problem contradicts itself; message and row say where */
} dsa_status;

/* Buffer i lives during [lower[i], upper[i]) and has size[i] bytes.
 *
 * lower, upper: steps, any origin; lower < upper. size: bytes, >= 0.
 * alignment: bytes, >= 1, not only powers of two; NULL: 1 for all.
 * fixed: the offset that the buffer must keep, -1 for any; NULL: any for all.
 * gap_*: gap_count elements each, NULL where that is 0. Buffer gap_buffer[j] is dead during
 * [gap_lower[j], gap_upper[j]), a part of its lifetime. The gaps of one buffer stand in order of
 * time, in any order of the buffers. */
typedef struct dsa_problem {
  size_t count;
  const int64_t* lower;
  const int64_t* upper;
  const int64_t* size;
  const int64_t* alignment;
  const int64_t* fixed;
  size_t gap_count;
  const int64_t* gap_buffer;
  const int64_t* gap_lower;
  const int64_t* gap_upper;
} dsa_problem;

typedef struct dsa_stop dsa_stop;

typedef struct dsa_options {
  const char* planner;  /* a name that dsa_planner() gives; NULL: "portfolio" */
  double seconds;       /* most time, wall clock; > 0 */
  int64_t capacity;     /* bytes: stop at the first plan so high; -1: as low as possible */
  uint64_t seed;        /* the same problem, options and seed give the same plan in time */
  const dsa_stop* stop; /* ends the search with the best so far, see below; NULL: nothing does */
} dsa_options;

typedef struct dsa_result {
  int64_t height;      /* bytes: the greatest offset + size; -1 without a plan */
  int64_t lower_bound; /* bytes: no plan is lower */
  int optimal;         /* the height is proved to be the least possible */
  int infeasible;      /* it is proved that there is no plan (within the capacity) */
  double seconds;      /* wall time of the planning alone */
  int64_t row;         /* the buffer or gap that `message` is about; -1: none */
  char message[160];   /* why not DSA_OK; empty otherwise */
} dsa_result;

/* Plans. `offsets` (count elements, the caller's) is written only where DSA_OK is returned. */
dsa_status dsa_plan(const dsa_problem* problem, const dsa_options* options, int64_t* offsets,
                    dsa_result* result);
/* Checks a plan by the judge that shares no code with the planners; result->height is what the
 * offsets need. */
dsa_status dsa_validate(const dsa_problem* problem, const int64_t* offsets, dsa_result* result);
/* Only result->lower_bound. */
dsa_status dsa_lower_bound(const dsa_problem* problem, dsa_result* result);

/* The name of planner `index`, cheapest first; NULL from the number of planners on. */
const char* dsa_planner(size_t index);
int dsa_version(void);

/* A flag that another thread sets to end a search. NULL without memory. */
dsa_stop* dsa_stop_new(void);
void dsa_stop_set(dsa_stop* stop);
void dsa_stop_free(dsa_stop* stop);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
