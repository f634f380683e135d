/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums of packets by key in windows of time, as `packetlog::integer::sketch` has them. */
#pragma once

#include <bpf/bpf_helpers.h>

#include "arithmetic.h"

/* Gaps are squared in units of 64 ns. */
#define GAP_SHIFT 6
#define VOTES_TO_EVICT 8
/* Tries to get a bucket that another processor holds, some tens of microseconds. */
#define TRIES_MAX 1024

/* Distances from a first number, and their squares, added up. */
struct spread {
	__s64 sum;
	__u64 squares;
};

struct sums {
	__u32 packets;
	__u32 marked;
	__u64 size_sum;
	__u32 size_min;
	__u32 size_max;
	__u32 size_first;
	__u32 gap_first;
	struct spread sizes;
	struct spread gaps;
	__u64 first_ns;
	__u64 last_ns;
	__u64 gap_min;
	__u64 gap_max;
};

struct bucket {
	/* 1 while a packet is taken in: bpf_spin_lock would turn interrupts off and on again, which
	 * takes longer than all that is done here, and protects from programs that never run in one.
	 */
	__u32 is_held;
	/* The number of its window, never 0. */
	__u32 window;
	__u64 hash;
	__u32 votes;
	__u32 unused;
	struct sums sums;
};

/* A packet on its way into a sketch. */
struct arrival {
	__u64 hash;
	/* Since the beginning of the window. */
	__u64 now_ns;
	__u32 window;
	__u32 size;
	__u32 is_marked;
};

static __always_inline void spread_add(struct spread *spread, __u32 number, __u32 first)
{
	__s64 distance = (__s64)number - (__s64)first;
	__u64 square = (__u64)distance * (__u64)distance;

	spread->sum += distance;
	spread->squares = spread->squares + square < square ? ~0ULL : spread->squares + square;
}

static __always_inline void sums_first(struct sums *sums, const struct arrival *packet)
{
	__builtin_memset(sums, 0, sizeof(*sums));
	sums->packets = 1;
	sums->marked = packet->is_marked;
	sums->size_sum = packet->size;
	sums->size_min = sums->size_max = sums->size_first = packet->size;
	sums->first_ns = sums->last_ns = packet->now_ns;
}

static __always_inline void sums_add(struct sums *sums, const struct arrival *packet)
{
	__u64 now_ns = packet->now_ns;
	__u64 gap_ns = now_ns > sums->last_ns ? now_ns - sums->last_ns : 0;
	__u64 wide = gap_ns >> GAP_SHIFT;
	__u32 gap = wide > 0xffffffff ? 0xffffffff : wide;

	if (sums->packets == 1) {
		sums->gap_min = sums->gap_max = gap_ns;
		sums->gap_first = gap;
	} else {
		if (gap_ns < sums->gap_min)
			sums->gap_min = gap_ns;
		if (gap_ns > sums->gap_max)
			sums->gap_max = gap_ns;
		spread_add(&sums->gaps, gap, sums->gap_first);
	}
	if (now_ns > sums->last_ns)
		sums->last_ns = now_ns;
	sums->packets += 1;
	sums->marked += packet->is_marked;
	sums->size_sum += packet->size;
	if (packet->size < sums->size_min)
		sums->size_min = packet->size;
	if (packet->size > sums->size_max)
		sums->size_max = packet->size;
	spread_add(&sums->sizes, packet->size, sums->size_first);
}

static __always_inline void admit(struct bucket *bucket, const struct arrival *packet)
{
	bucket->window = packet->window;
	bucket->hash = packet->hash;
	bucket->votes = 0;
	sums_first(&bucket->sums, packet);
}

/* A holder may be kept from its processor by the host of a virtual machine: no packet waits for that
 * as long as it may take.
 */
static __always_inline int bucket_hold(struct bucket *bucket)
{
	for (__u32 tries = 0; tries < TRIES_MAX; tries++) {
		if (!__sync_val_compare_and_swap(&bucket->is_held, 0, 1))
			return 1;
	}
	return 0;
}

static __always_inline void bucket_release(struct bucket *bucket)
{
	__sync_lock_test_and_set(&bucket->is_held, 0);
}

enum taking { NOT_HELD, OTHER_KEY, TAKEN };

/* Takes a packet into a bucket, and gives what its key has come to, unless it belongs to another
 * key. In the last layer such a packet votes for its key.
 */
static __always_inline enum taking bucket_take(struct bucket *bucket, const struct arrival *packet,
					       int is_last, struct sums *found)
{
	enum taking taking = TAKEN;

	if (!bucket_hold(bucket))
		return NOT_HELD;
	if (bucket->window != packet->window) {
		admit(bucket, packet);
	} else if (bucket->hash == packet->hash) {
		sums_add(&bucket->sums, packet);
	} else {
		taking = OTHER_KEY;
		if (is_last) {
			bucket->votes += 1;
			if (bucket->votes >= (__u64)bucket->sums.packets * VOTES_TO_EVICT) {
				admit(bucket, packet);
				taking = TAKEN;
			}
		}
	}
	if (taking == TAKEN)
		*found = bucket->sums;
	bucket_release(bucket);
	return taking;
}
