/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counts what passes a device, at tc ingress and tc egress, between two moments.
 *
 * What was received carries the stamp of its arrival, which a packet socket shows as well: whoever
 * records between the same two moments has exactly what is counted here. A packet without a stamp,
 * as all at egress are, is asked for the time at which it passes.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* The verdict of linux/bpf.h since 6.6: whatever else is attached has its turn. */
#define TCX_NEXT (-1)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Both clocks tell the same moments. */
struct moments {
	__u64 start_realtime_ns;
	__u64 stop_realtime_ns;
	__u64 start_monotonic_ns;
	__u64 stop_monotonic_ns;
};

struct counts {
	__u64 packets;
	__u64 bytes;
	__u64 segments;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct moments);
} MOMENTS SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} COUNTS SEC(".maps");

static __always_inline void count(struct __sk_buff *skb, __u64 stamp_ns)
{
	__u32 first = 0;
	struct moments *moments = bpf_map_lookup_elem(&MOMENTS, &first);
	struct counts *counts = bpf_map_lookup_elem(&COUNTS, &first);
	__u64 start_ns, stop_ns;

	if (!moments || !counts)
		return;
	if (stamp_ns) {
		start_ns = moments->start_realtime_ns;
		stop_ns = moments->stop_realtime_ns;
	} else {
		stamp_ns = bpf_ktime_get_ns();
		start_ns = moments->start_monotonic_ns;
		stop_ns = moments->stop_monotonic_ns;
	}
	if (stamp_ns < start_ns || stamp_ns >= stop_ns)
		return;
	counts->packets += 1;
	counts->bytes += skb->len;
	counts->segments += skb->gso_segs ? skb->gso_segs : 1;
}

SEC("classifier")
int tap_in(struct __sk_buff *skb)
{
	count(skb, skb->tstamp);
	return TCX_NEXT;
}

/* What stands in the stamp here is when the packet may leave, not when it came. */
SEC("classifier")
int tap_out(struct __sk_buff *skb)
{
	count(skb, 0);
	return TCX_NEXT;
}
