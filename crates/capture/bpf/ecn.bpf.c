/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Re-marks packets of named flows from ECT(1) to Not-ECT at tc egress, which is before the queueing
 * discipline: an L4S queue downstream then takes them for classic traffic (RFC 9331, section 4.1).
 *
 * User space names flows and gives each a budget of packets, which expires: a user space that no
 * longer runs decides nothing. A packet of any other flow is never changed, nor is one that carries anything but ECT(1). A packet that the kernel will cut into
 * segments later has one ECN field for all of them: it spends as many packets of the budget, and
 * stays as it is where fewer are left.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_key.h"

/* The verdict of linux/bpf.h since 6.6: whatever else is attached has its turn. */
#define TCX_NEXT (-1)

#define PROTOCOL_UDP 17
#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_DESTINATION 60
/* More extension headers before TCP or UDP are not searched. */
#define EXTENSIONS_MAX 4

#define IPV4_LEN 20
#define IPV6_LEN 40
#define PORTS_LEN 4

#define ECN_MASK 3
#define ECT1 1
#define ECT0 2
#define CE 3

#define DRY_RUN 1

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The order is that of crates/capture/src/tap/ecn/counts.rs. Those of named flows come first. */
enum fate {
	REMARKED,
	WOULD_REMARK,
	NOT_ECT,
	IS_ECT0,
	IS_CE,
	BUDGET_OUT,
	FAILED,
	FLOW_FATES_LEN,
	NO_FLOW = FLOW_FATES_LEN,
	NOT_IP,
	NOT_TCP_UDP,
	FRAGMENT,
	MALFORMED,
	/* Beside the sum: what the kernel will cut into segments, each counted once. */
	SEGMENTED,
	/* Beside the sum: budgets of which packets were left when they had expired. */
	BUDGETS_EXPIRED,
	COUNTS_LEN,
};

struct ecn_key {
	struct flow_key ends;
	__u8 protocol;
	__u8 version;
	__u16 unused;
};

struct named {
	/* Its place in BUDGETS. */
	__u32 index;
	/* Another flow's, when a place is used again. */
	__u32 generation;
	__u64 counts[FLOW_FATES_LEN];
};

/* Apart from the counts: user space writes all of it, the counts are written here alone. */
struct budget {
	struct bpf_spin_lock lock;
	__u32 generation;
	/* All packets that its place was ever allowed: less those of SPENT are left. User space can
	 * so add to a budget that is being spent, and no packet is spent twice for it. */
	__u64 allowed;
	/* Of the kernel's monotonic clock; nothing is spent from then on. */
	__u64 until_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} SETTINGS SEC(".maps");

/* The sizes of these are set when this is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ecn_key);
	__type(value, struct named);
} FLOWS SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOWS_MAX);
	__type(key, __u32);
	__type(value, struct budget);
} BUDGETS SEC(".maps");

/* All packets that were ever spent of a place, written here alone and under the budget's lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOWS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} SPENT SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS_LEN);
	__type(key, __u32);
	__type(value, __u64);
} COUNTS SEC(".maps");

static __always_inline void count(__u32 what, __u32 packets)
{
	__u64 *sum = bpf_map_lookup_elem(&COUNTS, &what);

	if (sum)
		*sum += packets;
}

/* Packets on the wire. Who hands over a packet of segments does not always say how many. */
static __always_inline __u32 segments_of(const struct __sk_buff *skb)
{
	if (skb->gso_segs > 1)
		return skb->gso_segs;
	if (!skb->gso_segs && skb->gso_size)
		return (skb->len + skb->gso_size - 1) / skb->gso_size;
	return 1;
}

/* REMARKED for a packet of TCP or UDP, whose IP header is at `ip_at` then. */
static __always_inline enum fate read_ipv4(struct __sk_buff *skb, struct ecn_key *key, __u32 at)
{
	__u32 header[IPV4_LEN / 4];
	__u32 header_len, total_len, ports;
	__u32 protocol;

	if (bpf_skb_load_bytes(skb, at, header, IPV4_LEN))
		return MALFORMED;
	header_len = (bpf_ntohl(header[0]) >> 24 & 0xf) * 4;
	total_len = bpf_ntohl(header[0]) & 0xffff;
	protocol = bpf_ntohl(header[2]) >> 16 & 0xff;
	/* Of segments that travel as one packet longer than 65,535 bytes the length is 0. */
	if (bpf_ntohl(header[0]) >> 28 != 4 || header_len < IPV4_LEN ||
	    (total_len && total_len < header_len))
		return MALFORMED;
	/* Fragments of one packet must agree (RFC 3168, section 5.3): none is changed. */
	if (bpf_ntohl(header[1]) & 0x3fff)
		return FRAGMENT;
	if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP)
		return NOT_TCP_UDP;
	if ((total_len && total_len < header_len + PORTS_LEN) ||
	    bpf_skb_load_bytes(skb, at + header_len, &ports, PORTS_LEN))
		return MALFORMED;
	key->ends.source[2] = bpf_htonl(0xffff);
	key->ends.source[3] = header[3];
	key->ends.destination[2] = bpf_htonl(0xffff);
	key->ends.destination[3] = header[4];
	key->ends.source_port = ports & 0xffff;
	key->ends.destination_port = ports >> 16;
	key->protocol = protocol;
	key->version = 4;
	return REMARKED;
}

static __always_inline enum fate read_ipv6(struct __sk_buff *skb, struct ecn_key *key, __u32 at)
{
	__u32 header[IPV6_LEN / 4];
	__u32 next, ports;

	if (bpf_skb_load_bytes(skb, at, header, IPV6_LEN) || bpf_ntohl(header[0]) >> 28 != 6)
		return MALFORMED;
	next = bpf_ntohl(header[1]) >> 8 & 0xff;
	at += IPV6_LEN;
	for (int extension = 0; extension < EXTENSIONS_MAX; extension++) {
		__u8 start[2];

		if (next == PROTOCOL_FRAGMENT)
			return FRAGMENT;
		if (next != PROTOCOL_HOP_BY_HOP && next != PROTOCOL_ROUTING &&
		    next != PROTOCOL_DESTINATION)
			break;
		if (bpf_skb_load_bytes(skb, at, start, sizeof(start)))
			return MALFORMED;
		next = start[0];
		at += (start[1] + 1) * 8;
	}
	if (next == PROTOCOL_FRAGMENT)
		return FRAGMENT;
	if (next != PROTOCOL_TCP && next != PROTOCOL_UDP)
		return NOT_TCP_UDP;
	if (bpf_skb_load_bytes(skb, at, &ports, PORTS_LEN))
		return MALFORMED;
	__builtin_memcpy(key->ends.source, &header[2], 16);
	__builtin_memcpy(key->ends.destination, &header[6], 16);
	key->ends.source_port = ports & 0xffff;
	key->ends.destination_port = ports >> 16;
	key->protocol = next;
	key->version = 6;
	return REMARKED;
}

static __always_inline enum fate read_packet(struct __sk_buff *skb, struct ecn_key *key,
					     __u32 *ip_at)
{
	__u32 at = ETH_LEN;
	__u16 type;

	if (bpf_skb_load_bytes(skb, ETH_LEN - 2, &type, sizeof(type)))
		return MALFORMED;
	for (int tag = 0; tag < VLAN_TAGS_MAX; tag++) {
		if (type != bpf_htons(ETH_VLAN) && type != bpf_htons(ETH_VLAN_OUTER))
			break;
		if (bpf_skb_load_bytes(skb, at + 2, &type, sizeof(type)))
			return MALFORMED;
		at += VLAN_LEN;
	}
	*ip_at = at;
	if (type == bpf_htons(ETH_IPV4))
		return read_ipv4(skb, key, at);
	if (type == bpf_htons(ETH_IPV6))
		return read_ipv6(skb, key, at);
	return NOT_IP;
}

/* Field and checksum are written by one call: a packet is never half changed. */
static __always_inline long clear_ipv4(struct __sk_buff *skb, __u32 at)
{
	__u8 header[12];
	__u32 sum;

	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return -1;
	header[1] &= ~ECN_MASK;
	/* One less in the first word is one less in the sum, which goes on from 0 (RFC 1624). */
	sum = (~((__u32)header[10] << 8 | header[11]) & 0xffff) + 0xfffe;
	sum = ~((sum & 0xffff) + (sum >> 16));
	header[10] = sum >> 8;
	header[11] = sum;
	return bpf_skb_store_bytes(skb, at + 1, header + 1, sizeof(header) - 1, 0);
}

/* The traffic class lies across two bytes, and no checksum covers it. */
static __always_inline long clear_ipv6(struct __sk_buff *skb, __u32 at, __u8 second)
{
	second &= ~(ECN_MASK << 4);
	return bpf_skb_store_bytes(skb, at + 1, &second, 1, 0);
}

/* Whether the flow may have as many packets re-marked; they are spent then. */
static __always_inline enum fate spend(struct budget *budget, __u64 *spent,
				       const struct named *named, __u32 packets)
{
	__u32 generation = named->generation;
	/* Before the lock, under which nothing may be called. */
	__u64 now_ns = bpf_ktime_get_ns();
	enum fate fate = BUDGET_OUT;
	__u32 expired = 0;
	__u64 left;

	bpf_spin_lock(&budget->lock);
	/* What was spent while user space ended a budget may be more than it knew of. */
	left = budget->allowed > *spent ? budget->allowed - *spent : 0;
	if (budget->generation != generation) {
		/* The place is another flow's by now: this one was forgotten. */
		fate = NO_FLOW;
	} else if (left && now_ns >= budget->until_ns) {
		budget->allowed = *spent;
		expired = 1;
	} else if (left >= packets) {
		*spent += packets;
		fate = REMARKED;
	}
	bpf_spin_unlock(&budget->lock);
	if (expired)
		count(BUDGETS_EXPIRED, 1);
	return fate;
}

static __always_inline void give_back(struct budget *budget, __u64 *spent,
				      const struct named *named, __u32 packets)
{
	__u32 generation = named->generation;

	bpf_spin_lock(&budget->lock);
	if (budget->generation == generation)
		*spent -= packets;
	bpf_spin_unlock(&budget->lock);
}

static __always_inline enum fate mark(struct __sk_buff *skb, const struct ecn_key *key,
				      const struct named *named, __u32 at, __u32 packets)
{
	__u32 first = 0, index = named->index;
	const __u32 *settings = bpf_map_lookup_elem(&SETTINGS, &first);
	struct budget *budget = bpf_map_lookup_elem(&BUDGETS, &index);
	__u64 *spent = bpf_map_lookup_elem(&SPENT, &index);
	enum fate fate;
	__u8 second;
	__u8 ecn;

	if (!settings || !budget || !spent || bpf_skb_load_bytes(skb, at + 1, &second, 1))
		return FAILED;
	ecn = (key->version == 4 ? second : second >> 4) & ECN_MASK;
	if (ecn == CE)
		return IS_CE;
	if (ecn == ECT0)
		return IS_ECT0;
	if (ecn != ECT1)
		return NOT_ECT;
	fate = spend(budget, spent, named, packets);
	if (fate != REMARKED)
		return fate;
	if (*settings & DRY_RUN)
		return WOULD_REMARK;
	if (key->version == 4 ? clear_ipv4(skb, at) : clear_ipv6(skb, at, second)) {
		give_back(budget, spent, named, packets);
		return FAILED;
	}
	return REMARKED;
}

SEC("classifier")
int ecn(struct __sk_buff *skb)
{
	__u32 packets = segments_of(skb);
	struct ecn_key key = {};
	struct named *named;
	enum fate fate;
	__u32 at = 0;

	if (packets > 1)
		count(SEGMENTED, 1);
	fate = read_packet(skb, &key, &at);
	if (fate == REMARKED) {
		named = bpf_map_lookup_elem(&FLOWS, &key);
		fate = named ? mark(skb, &key, named, at, packets) : NO_FLOW;
		if (named && fate < FLOW_FATES_LEN)
			__sync_fetch_and_add(&named->counts[fate], packets);
	}
	count(fate, packets);
	return TCX_NEXT;
}
