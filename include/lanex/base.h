/*
 * lanex/base.h - what every lanex header shares: export marks, version, the rules of the house.
 *
 * Conventions of the whole API
 *   Results     0 or a positive value on success, -errno on failure. errno is never touched.
 *   Outputs     come last, are named ret_*, and are left as they were on failure.
 *   Options     are structs whose first member is `size`. Fill with zero, set size to sizeof the
 *               struct, set what differs: zero always means "the default". A size that this library
 *               does not know is -EINVAL.
 *   Pairs       create/destroy, init/fini, acquire/release, ref/unref. destroy(NULL) and
 *               unref(NULL) do nothing.
 *   Fork        In a forked child every call on an object made by the parent gives -ECHILD, and
 *               destroy does nothing: the threads did not come along. A body, callback or hook may
 *               fork; its child execs or _exits. One that comes back from it instead, or panics, is
 *               ended with LANEX_FORKED_EXIT: the parent alone answers the job.
 *   Threads     Every call may be made from any thread unless its comment says otherwise.
 *   Time        CLOCK_MONOTONIC, in nanoseconds, as uint64_t. Durations are named *_ns or *_ms.
 */
#ifndef LANEX_BASE_H
#define LANEX_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LANEX_API                __attribute__((visibility("default")))
#define LANEX_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define LANEX_NORETURN           __attribute__((noreturn))
#else
#define LANEX_API
#define LANEX_PRINTF(fmt, first)
#define LANEX_NORETURN
#endif

#if defined(__cplusplus)
#define LANEX_BEGIN_DECLS extern "C" {
#define LANEX_END_DECLS   }
#else
#define LANEX_BEGIN_DECLS
#define LANEX_END_DECLS
#endif

#define LANEX_VERSION_MAJOR 0
#define LANEX_VERSION_MINOR 1
#define LANEX_VERSION_PATCH 0

/* A point in time that never comes: "no deadline", "wait for ever". */
#define LANEX_TIME_NEVER UINT64_MAX

/* Exit status of a child that was forked in a body, callback or hook and came back from it. */
#define LANEX_FORKED_EXIT 70

LANEX_BEGIN_DECLS

/* The version of the library that is loaded, as "major.minor.patch"; static storage. */
LANEX_API const char *lanex_version(void);

LANEX_END_DECLS

#endif
