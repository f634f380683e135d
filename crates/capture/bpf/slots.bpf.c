/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cuts flows that are followed into slots of time, at a tap before a queue and at one behind it.
 *
 * Of each slot in which a flow had a packet one record is told, when the first packet of a later
 * slot has come; a slot that is still open is read from the flow's state. What a record holds, and
 * by which rules, is that of crates/packet/src/tap_slot.rs and crates/cca/src/tap.rs: the same
 * packets give the same bytes there.
 *
 * Where the next hop cannot be tapped, slots_xmit takes departures from the moment in which the
 * kernel hands a packet to the device's driver, behind the queue. It is called for all devices of
 * all namespaces, and not for every packet: bursts are missing now and then.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "segment.h"

/* The verdict of linux/bpf.h since 6.6: whatever else is attached has its turn. */
#define TCX_NEXT (-1)

/* No window reaches further (RFC 7323). */
#define WINDOW_MAX_BYTES (1 << 30)

#define RECENT_BITS 6
#define RECENT_LEN (1 << RECENT_BITS)
#define TELL_BYTES (1 << 22)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum tap { INGRESS, EGRESS, TAPS };

/* In the place of a tap: a packet of a flow that is not followed, so that it may be. */
#define SEEN TAPS

/* Of the kernel's structures what is read here; where it lies is known when this is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct skb_shared_info {
	unsigned short gso_segs;
};

struct sk_buff {
	unsigned int len;
	unsigned int data_len;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

#pragma clang attribute pop

struct settings {
	__u64 slot_ns;
	/* CLOCK_REALTIME less CLOCK_MONOTONIC, for packets that have no stamp. */
	__s64 realtime_ahead_ns;
	/* Draws above it are left out. */
	__u32 share;
	/* Tell every packet, as if each had a slot of its own. */
	__u32 each_packet;
	/* Draws above it are not told of flows that are not followed. */
	__u32 seen_share;
	/* The device whose departures are taken, and the number of its namespace. */
	__u32 xmit_device;
	__u32 xmit_namespace;
	/* Counted up when a flow is followed no more; never 0. */
	__u32 changes;
};

struct followed {
	/* Its place in STATES is this times TAPS plus the tap. */
	__u32 index;
	/* Another flow's, when an index is used again. */
	__u32 generation;
};

#define BEGAN 1
/* Of a packet that is told alone: its time stamp stands in the place of the largest step. */
#define TICKS 2

struct slot {
	__s64 slot;
	__s64 first_ns;
	__u64 data_bytes;
	__u64 frame_bytes;
	__u32 packets;
	__u32 segments;
	__u32 first_seq;
	__u32 high_seq;
	__u32 skipped_bytes;
	__u32 source_gap_max_ticks;
	__u32 arrival_gap_max_ns;
	__u32 flags;
};

/* What is known. */
#define HAS_OPEN 1
#define HAS_LAST 2
#define HAS_TICKS 4
#define BEGINS 8

/*
 * What every packet needs lies in one cache line, what a slot needs once in the next: a tap shares
 * the caches with whoever copies the packets.
 */
struct state {
	struct bpf_spin_lock lock;
	__u32 has;
	/* When the slot that is open ends. */
	__s64 end_ns;
	__s64 last_ns;
	__u64 data_bytes;
	__u64 frame_bytes;
	__u32 packets;
	__u32 segments;
	__u32 high_seq;
	__u32 ticks;
	__u32 source_gap_max_ticks;
	__u32 arrival_gap_max_ns;

	__s64 slot;
	__s64 first_ns;
	__u32 first_seq;
	__u32 skipped_bytes;
	__u32 flags;
	__u32 unused[9];
};

struct told {
	__u32 tap;
	struct followed flow;
	__u32 data_len;
	union {
		struct slot slot;
		struct flow_key key;
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} SETTINGS SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_key);
	__type(value, struct followed);
} FLOWS SEC(".maps");

/* Flows that were looked up last: most packets are of few flows, and FLOWS takes longer. */
struct recent {
	struct flow_key key;
	struct followed flow;
	/* As in the settings, when it was looked up; it is of no use once that has changed. */
	__u32 changes;
	__u32 unused[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RECENT_LEN);
	__type(key, __u32);
	__type(value, struct recent);
} RECENT SEC(".maps");

/* Such a map begins with a page, so that cache lines are where they are meant to be. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOWS_MAX * TAPS);
	__type(key, __u32);
	__type(value, struct state);
} STATES SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TAPS * COUNTS_LEN);
	__type(key, __u32);
	__type(value, __u64);
} COUNTS SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TELL_BYTES);
} TOLD SEC(".maps");

static __always_inline void count(enum tap tap, enum count what)
{
	__u32 place = tap * COUNTS_LEN + what;
	__u64 *sum = bpf_map_lookup_elem(&COUNTS, &place);

	if (sum)
		*sum += 1;
}

static __always_inline __u32 larger(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

static __always_inline int is_same(const struct flow_key *a, const struct flow_key *b)
{
	__u32 differ = 0;

	for (__u32 word = 0; word < sizeof(*a) / sizeof(__u32); word++)
		differ |= ((const __u32 *)a)[word] ^ ((const __u32 *)b)[word];
	return !differ;
}

/* The flow of a packet, if it is followed. */
static __always_inline int find(const struct settings *settings, const struct flow_key *key,
				struct followed *flow)
{
	/* Before the flow is looked up: what is known may have changed since. */
	__u32 changes = *(const volatile __u32 *)&settings->changes;
	__u32 mixed = key->source[3] ^ key->destination[3] ^ key->source_port ^
		      (__u32)key->destination_port << 16;
	/* The golden ratio, after Knuth: bits that differ anywhere differ at the top. */
	__u32 place = (mixed * 0x9e3779b1) >> (32 - RECENT_BITS);
	struct recent *recent = bpf_map_lookup_elem(&RECENT, &place);
	const struct followed *found;

	if (recent && recent->changes == changes && is_same(&recent->key, key)) {
		*flow = recent->flow;
		return 1;
	}
	found = bpf_map_lookup_elem(&FLOWS, key);
	if (!found)
		return 0;
	*flow = *found;
	if (recent) {
		recent->key = *key;
		recent->flow = *flow;
		recent->changes = changes;
	}
	return 1;
}

/* The slot that is open, as it is told. */
static __always_inline void take(const struct state *state, struct slot *slot)
{
	slot->slot = state->slot;
	slot->first_ns = state->first_ns;
	slot->data_bytes = state->data_bytes;
	slot->frame_bytes = state->frame_bytes;
	slot->packets = state->packets;
	slot->segments = state->segments;
	slot->first_seq = state->first_seq;
	slot->high_seq = state->high_seq;
	slot->skipped_bytes = state->skipped_bytes;
	slot->source_gap_max_ticks = state->source_gap_max_ticks;
	slot->arrival_gap_max_ns = state->arrival_gap_max_ns;
	slot->flags = state->flags;
}

static __always_inline void begin(struct state *state, const struct segment *segment, __s64 now_ns,
				  __u64 slot_ns)
{
	/* Time before 1970 does not come from a clock. */
	state->slot = (__u64)now_ns / slot_ns;
	state->end_ns = (state->slot + 1) * slot_ns;
	state->first_ns = now_ns;
	state->first_seq = segment->seq;
	state->data_bytes = 0;
	state->frame_bytes = 0;
	state->packets = 0;
	state->segments = 0;
	state->skipped_bytes = 0;
	state->source_gap_max_ticks = 0;
	state->arrival_gap_max_ns = 0;
	state->flags = 0;
	state->has |= HAS_OPEN;
}

/* Adds a packet to its slot. Whether the slot before is complete, which is `done` then. */
static __always_inline int add(struct state *state, const struct segment *segment, __s64 now_ns,
			       __u64 slot_ns, __u32 frame_len, __u32 segments, struct slot *done)
{
	__u32 end = segment->seq + segment->data_len;
	__u32 high = end;
	int is_done = 0;

	bpf_spin_lock(&state->lock);
	if (segment->opens) {
		state->has &= ~HAS_LAST;
		state->has |= BEGINS;
		if (!segment->data_len)
			goto out;
	}
	if (state->has & HAS_LAST) {
		__s32 ahead = segment->seq - state->high_seq;

		if (ahead > WINDOW_MAX_BYTES || ahead < -WINDOW_MAX_BYTES) {
			state->has &= ~HAS_LAST;
			state->has |= BEGINS;
		}
	}
	if (state->has & HAS_LAST && now_ns < state->last_ns)
		now_ns = state->last_ns;
	/* What is from before the open slot is part of it: slots that were told stay as they are. */
	if (!(state->has & HAS_OPEN)) {
		begin(state, segment, now_ns, slot_ns);
	} else if (now_ns >= state->end_ns) {
		take(state, done);
		is_done = 1;
		begin(state, segment, now_ns, slot_ns);
	}
	if (state->has & BEGINS) {
		state->has &= ~BEGINS;
		state->flags |= BEGAN;
		state->first_seq = segment->seq;
	}
	state->data_bytes += segment->data_len;
	state->frame_bytes += frame_len;
	state->packets += 1;
	state->segments += segments;
	if (state->has & HAS_LAST) {
		__s32 ahead = segment->seq - state->high_seq;
		__u64 gap_ns = now_ns - state->last_ns;

		/* To the most that can be told, and no further. */
		if (ahead > 0 && (state->skipped_bytes += ahead) < (__u32)ahead)
			state->skipped_bytes = 0xffffffff;
		if ((__s32)(end - state->high_seq) < 0)
			high = state->high_seq;
		state->arrival_gap_max_ns = larger(state->arrival_gap_max_ns,
						   gap_ns > 0xffffffff ? 0xffffffff : gap_ns);
		if (segment->has_ticks && state->has & HAS_TICKS) {
			__s32 step = segment->ticks - state->ticks;

			if (step > 0)
				state->source_gap_max_ticks =
					larger(state->source_gap_max_ticks, step);
		}
	} else {
		state->has &= ~HAS_TICKS;
	}
	state->high_seq = high;
	state->last_ns = now_ns;
	state->has |= HAS_LAST;
	if (segment->has_ticks) {
		state->has |= HAS_TICKS;
		state->ticks = segment->ticks;
	}
out:
	bpf_spin_unlock(&state->lock);
	return is_done;
}

static __always_inline int tell(enum tap tap, const struct followed *flow, const struct slot *slot)
{
	struct told *told = bpf_ringbuf_reserve(&TOLD, sizeof(*told), 0);

	if (!told)
		return 0;
	told->tap = tap;
	told->flow = *flow;
	told->data_len = 0;
	told->slot = *slot;
	/* Whoever reads comes by the clock; waking it for each would cost more than all else. */
	bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
	return 1;
}

/* Lost where the ring is full: another packet of a heavy flow comes soon. */
static __always_inline void tell_seen(const struct segment *segment)
{
	struct told *told = bpf_ringbuf_reserve(&TOLD, sizeof(*told), 0);

	if (!told)
		return;
	__builtin_memset(told, 0, sizeof(*told));
	told->tap = SEEN;
	told->data_len = segment->data_len;
	told->key = segment->key;
	bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
}

static __always_inline enum count see(const struct packet *packet, __u64 stamp_ns, enum tap tap)
{
	struct segment segment;
	const struct settings *settings;
	struct followed flow;
	struct state *state;
	struct slot done;
	enum count fate;
	__u32 place = 0;
	__s64 now_ns;

	fate = read_segment(packet, &segment);
	if (fate != TAKEN)
		return fate;
	settings = bpf_map_lookup_elem(&SETTINGS, &place);
	if (!settings || !settings->slot_ns)
		return NOT_FOLLOWED;
	if (!find(settings, &segment.key, &flow)) {
		if (tap == INGRESS && settings->seen_share && segment.data_len &&
		    bpf_get_prandom_u32() <= settings->seen_share)
			tell_seen(&segment);
		return NOT_FOLLOWED;
	}
	/* What opens a connection is no data, and tells one from the next. */
	if (!segment.opens && settings->share != 0xffffffff &&
	    bpf_get_prandom_u32() > settings->share)
		return LEFT_OUT;
	place = flow.index * TAPS + tap;
	state = bpf_map_lookup_elem(&STATES, &place);
	if (!state)
		return NOT_FOLLOWED;
	/* What was received carries the stamp of its arrival, which a packet socket shows as well. */
	now_ns = stamp_ns;
	if (!now_ns)
		now_ns = bpf_ktime_get_ns() + settings->realtime_ahead_ns;

	if (settings->each_packet) {
		__builtin_memset(&done, 0, sizeof(done));
		done.slot = (__u64)now_ns / settings->slot_ns;
		done.first_ns = now_ns;
		done.data_bytes = segment.data_len;
		done.frame_bytes = packet->len;
		done.packets = 1;
		done.segments = packet->segments;
		done.first_seq = segment.seq;
		done.high_seq = segment.seq + segment.data_len;
		done.flags = segment.opens ? BEGAN : 0;
		if (segment.has_ticks) {
			done.flags |= TICKS;
			done.source_gap_max_ticks = segment.ticks;
		}
		return tell(tap, &flow, &done) ? TAKEN : NO_ROOM;
	}
	if (add(state, &segment, now_ns, settings->slot_ns, packet->len, packet->segments, &done) &&
	    !tell(tap, &flow, &done))
		return NO_ROOM;
	return TAKEN;
}

static __always_inline enum count see_received(struct __sk_buff *skb, enum tap tap)
{
	struct packet packet = {
		.skb = skb,
		.len = skb->len,
		.segments = skb->gso_segs ? skb->gso_segs : 1,
	};

	return see(&packet, skb->tstamp, tap);
}

SEC("classifier")
int slots_ingress(struct __sk_buff *skb)
{
	count(INGRESS, see_received(skb, INGRESS));
	return TCX_NEXT;
}

SEC("classifier")
int slots_egress(struct __sk_buff *skb)
{
	count(EGRESS, see_received(skb, EGRESS));
	return TCX_NEXT;
}

/* What stands in a packet's stamp here is when it may leave, not when it came. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(slots_xmit, const struct sk_buff *skb, const struct net_device *device)
{
	const struct settings *settings;
	const struct skb_shared_info *shared;
	struct packet packet = {};
	__u32 first = 0;

	settings = bpf_map_lookup_elem(&SETTINGS, &first);
	if (!settings || (__u32)device->ifindex != settings->xmit_device)
		return 0;
	if (device->nd_net.net->ns.inum != settings->xmit_namespace)
		return 0;
	packet.data = skb->data;
	packet.len = skb->len;
	packet.linear_len = skb->len - skb->data_len;
	shared = (const void *)(skb->head + skb->end);
	packet.segments = BPF_CORE_READ(shared, gso_segs);
	if (!packet.segments)
		packet.segments = 1;
	count(EGRESS, see(&packet, 0, EGRESS));
	return 0;
}
