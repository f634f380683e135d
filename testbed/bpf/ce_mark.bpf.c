/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Congestion Experienced for packets that meet a queue: at tc egress of a bottleneck, a packet is
 * marked when the bytes waiting in the device's root qdisc are above a threshold (RFC 8257,
 * section 3.1). The qdisc's own count is read, so drops and any rate are taken into account.
 * Packets that are not ECN-capable pass as they are.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#define KERNEL_LAYOUT __attribute__((preserve_access_index))
/* The verdict of linux/bpf.h since 6.6: whatever else is attached has its turn. */
#define TCX_NEXT (-1)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct gnet_stats_queue {
	__u32 backlog;
} KERNEL_LAYOUT;

struct Qdisc {
	struct gnet_stats_queue qstats;
} KERNEL_LAYOUT;

struct net_device {
	struct Qdisc *qdisc;
} KERNEL_LAYOUT;

struct sk_buff {
	struct net_device *dev;
} KERNEL_LAYOUT;

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

struct ce_mark {
	__u64 threshold_bytes; /* set by user space before the program is attached */
	__u64 seen;
	__u64 above_threshold;
	__u64 marked;
	__u64 backlog_max_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ce_mark);
} ce_mark_state SEC(".maps");

SEC("classifier")
int ce_mark(struct __sk_buff *skb)
{
	const struct sk_buff *kernel_skb = bpf_cast_to_kern_ctx(skb);
	__u64 backlog_bytes = kernel_skb->dev->qdisc->qstats.backlog;
	__u32 only = 0;
	struct ce_mark *state = bpf_map_lookup_elem(&ce_mark_state, &only);

	if (!state)
		return TCX_NEXT;
	__sync_fetch_and_add(&state->seen, 1);
	if (backlog_bytes > state->backlog_max_bytes)
		state->backlog_max_bytes = backlog_bytes;
	if (backlog_bytes > state->threshold_bytes) {
		__sync_fetch_and_add(&state->above_threshold, 1);
		if (bpf_skb_ecn_set_ce(skb))
			__sync_fetch_and_add(&state->marked, 1);
	}
	return TCX_NEXT;
}
