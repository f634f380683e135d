/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steers flows into classes of a queueing discipline, at tc egress, which is before it.
 *
 * A packet's priority is the class that it goes to, where it names one of the discipline at the
 * device (tc-htb(8)); of a flow that is not listed it stays as it is. A flow changes its class by
 * one write to the list, between two packets.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_key.h"

/* The verdict of linux/bpf.h since 6.6: whatever else is attached has its turn. */
#define TCX_NEXT (-1)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FLOWS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_key);
	__type(value, __u32);
} CLASSES SEC(".maps");

/* Whether the packet belongs to a TCP flow that can be told. */
static __always_inline int read_key(struct __sk_buff *skb, struct flow_key *key)
{
	__u32 header[10];
	__u32 at = ETH_LEN;
	__u32 words;
	__u16 type;

	if (bpf_skb_load_bytes(skb, ETH_LEN - 2, &type, sizeof(type)))
		return 0;
	for (int tag = 0; tag < VLAN_TAGS_MAX; tag++) {
		if (type != bpf_htons(ETH_VLAN) && type != bpf_htons(ETH_VLAN_OUTER))
			break;
		if (bpf_skb_load_bytes(skb, at + 2, &type, sizeof(type)))
			return 0;
		at += VLAN_LEN;
	}
	if (type == bpf_htons(ETH_IPV4)) {
		if (bpf_skb_load_bytes(skb, at, header, 20))
			return 0;
		words = bpf_ntohl(header[0]) >> 24 & 0xf;
		/* Later fragments carry no ports. */
		if ((bpf_ntohl(header[2]) >> 16 & 0xff) != PROTOCOL_TCP ||
		    bpf_ntohl(header[1]) & 0x1fff || words < 5)
			return 0;
		at += words * 4;
		key->source[0] = key->source[1] = 0;
		key->source[2] = bpf_htonl(0xffff);
		key->source[3] = header[3];
		key->destination[0] = key->destination[1] = 0;
		key->destination[2] = bpf_htonl(0xffff);
		key->destination[3] = header[4];
	} else if (type == bpf_htons(ETH_IPV6)) {
		if (bpf_skb_load_bytes(skb, at, header, 40))
			return 0;
		if ((bpf_ntohl(header[1]) >> 8 & 0xff) != PROTOCOL_TCP)
			return 0;
		at += 40;
		__builtin_memcpy(key->source, &header[2], 16);
		__builtin_memcpy(key->destination, &header[6], 16);
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes(skb, at, header, 4))
		return 0;
	key->source_port = header[0] & 0xffff;
	key->destination_port = header[0] >> 16;
	return 1;
}

SEC("classifier")
int steer(struct __sk_buff *skb)
{
	struct flow_key key;
	const __u32 *class_id;

	if (!read_key(skb, &key))
		return TCX_NEXT;
	class_id = bpf_map_lookup_elem(&CLASSES, &key);
	if (class_id)
		skb->priority = *class_id;
	return TCX_NEXT;
}
