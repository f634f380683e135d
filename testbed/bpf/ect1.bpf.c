/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ECT(1) in place of ECT(0), at tc egress of a sender: this kernel's TCP knows only the latter, and
 * an L4S queue takes only the former (RFC 9331). Retransmitted data leaves this kernel as
 * Not-ECT, which RFC 8311 no longer asks for: it would wait in the other queue, be overtaken, and
 * be sent once more. It becomes ECT(1), too, where both ends agreed on ECN.
 *
 * Only packets of sockets with our mark are changed, so that flows of classic ECN may leave the
 * same host. A share of them, drawn for each packet, becomes Not-ECT instead: what re-marking costs
 * that knows nothing of queues.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* The verdict of linux/bpf.h since 6.6: whatever else is attached has its turn. */
#define TCX_NEXT (-1)
/* SO_MARK of sockets whose packets are L4S. */
#define MARK_L4S 0x4c3453

#define ECN_MASK 3
#define NOT_ECT 0
#define ECT1 1
#define ECT0 2
#define TCP_ECN_OK 0x1 /* in ecn_flags: both ends agreed on ECN */
#define TCP_OFFSET_AT 12

struct tcp_sock {
	__u8 ecn_flags;
} __attribute__((preserve_access_index));

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct ect1 {
	__u64 seen; /* packets of marked sockets, as they will be on the wire */
	__u64 changed; /* to ECT(1) */
	__u64 remarked; /* to Not-ECT */
	__u64 remark_below; /* of 2^32 draws, so many are re-marked; set before the first packet */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ect1);
} ect1_state SEC(".maps");

/* Whether a packet without ECT carries data of a connection with ECN. */
static bool is_sent_again(struct __sk_buff *skb, __u32 tcp_at)
{
	struct bpf_sock *sk = skb->sk;
	struct tcp_sock *tcp;
	__u8 offset;

	if (!sk)
		return false;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || !(tcp->ecn_flags & TCP_ECN_OK) ||
	    bpf_skb_load_bytes(skb, tcp_at + TCP_OFFSET_AT, &offset, 1))
		return false;
	return skb->len > tcp_at + (offset >> 4) * 4;
}

static bool is_wanted(struct __sk_buff *skb, __u8 ecn, __u32 tcp_at)
{
	return ecn == ECT0 || (ecn == NOT_ECT && is_sent_again(skb, tcp_at));
}

static bool change_ipv4(struct __sk_buff *skb, __u8 ecn)
{
	/* The checksum is of 16-bit words, of which tos is the lower half of the first. */
	__u8 first[2];
	__be16 from, to;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, first, sizeof(first)) ||
	    !is_wanted(skb, first[1] & ECN_MASK, ETH_HLEN + (first[0] & 0xf) * 4))
		return false;
	from = bpf_htons((__u16)first[0] << 8 | first[1]);
	first[1] = (first[1] & ~ECN_MASK) | ecn;
	to = bpf_htons((__u16)first[0] << 8 | first[1]);
	return !bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), from, to,
				    sizeof(to)) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + 1, &first[1], 1, 0);
}

/* The traffic class lies across two bytes, and no checksum covers it. */
static bool change_ipv6(struct __sk_buff *skb, __u8 ecn)
{
	__u8 second;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + 1, &second, 1) ||
	    !is_wanted(skb, second >> 4 & ECN_MASK, ETH_HLEN + sizeof(struct ipv6hdr)))
		return false;
	second = (second & ~(ECN_MASK << 4)) | ecn << 4;
	return !bpf_skb_store_bytes(skb, ETH_HLEN + 1, &second, 1, 0);
}

SEC("classifier")
int ect1(struct __sk_buff *skb)
{
	__u32 only = 0;
	struct ect1 *state = bpf_map_lookup_elem(&ect1_state, &only);
	/* TCP hands over several at once, with one header, whatever the device can do. */
	__u32 segments = skb->gso_segs > 0 ? skb->gso_segs : 1;
	bool is_changed = false;
	__u8 ecn;

	if (!state || skb->mark != MARK_L4S)
		return TCX_NEXT;
	__sync_fetch_and_add(&state->seen, segments);
	ecn = bpf_get_prandom_u32() < state->remark_below ? NOT_ECT : ECT1;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		is_changed = change_ipv4(skb, ecn);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		is_changed = change_ipv6(skb, ecn);
	if (is_changed)
		__sync_fetch_and_add(ecn == ECT1 ? &state->changed : &state->remarked, segments);
	return TCX_NEXT;
}
