/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Headers of a packet, down to TCP, from wherever a program has it. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow_key.h"

#define TCP_SYN 0x02
/* NOP, NOP, time stamps of ten bytes: the layout that RFC 7323 recommends, and everybody sends. */
#define STAMPS_FIRST 0x0101080a

enum count {
	TAKEN,
	NOT_FOLLOWED,
	LEFT_OUT,
	NO_ROOM,
	NOT_TCP,
	NO_DATA,
	UNREADABLE,
	COUNTS_LEN,
};

/* A packet, as a program at tc has it or as one at the device's driver. */
struct packet {
	struct __sk_buff *skb;
	const unsigned char *data;
	__u32 linear_len;
	__u32 len;
	__u32 segments;
};

struct segment {
	struct flow_key key;
	__u32 seq;
	__u32 data_len;
	__u32 ticks;
	__u32 has_ticks;
	__u32 opens;
};

/* Nothing for the bytes that are there. */
static __always_inline long load(const struct packet *packet, __u32 at, void *to, __u32 len)
{
	if (packet->skb) {
		const unsigned char *data = (void *)(long)packet->skb->data;
		const unsigned char *end = (void *)(long)packet->skb->data_end;

		/* Headers lie in one piece, mostly; what is not there is fetched at four times the cost. */
		if (data + at + len > end)
			return bpf_skb_load_bytes(packet->skb, at, to, len);
		/* In words, wherever they lie: all but a few processors can. */
		if (len == sizeof(__u16))
			*(__u16 *)to = *(const __u16 *)(data + at);
		for (__u32 word = 0; word < len / sizeof(__u32); word++)
			((__u32 *)to)[word] = ((const __u32 *)(data + at))[word];
		return 0;
	}
	if (at + len > packet->linear_len)
		return -1;
	return bpf_probe_read_kernel(to, len, packet->data + at);
}

/* What became of the packet: TAKEN if it is read. */
static __always_inline enum count read_segment(const struct packet *packet,
					       struct segment *segment)
{
	__u32 header[10];
	__u32 at = ETH_LEN;
	__u32 ip_len;
	__u16 type;

	if (load(packet, ETH_LEN - 2, &type, sizeof(type)))
		return NOT_TCP;
	for (int tag = 0; tag < VLAN_TAGS_MAX; tag++) {
		if (type != bpf_htons(ETH_VLAN) && type != bpf_htons(ETH_VLAN_OUTER))
			break;
		if (load(packet, at + 2, &type, sizeof(type)))
			return NOT_TCP;
		at += VLAN_LEN;
	}
	if (type == bpf_htons(ETH_IPV4)) {
		__u32 words;

		if (load(packet, at, header, 20))
			return UNREADABLE;
		if ((bpf_ntohl(header[2]) >> 16 & 0xff) != PROTOCOL_TCP)
			return NOT_TCP;
		if (bpf_ntohl(header[1]) & 0x1fff)
			return UNREADABLE;
		words = bpf_ntohl(header[0]) >> 24 & 0xf;
		ip_len = bpf_ntohl(header[0]) & 0xffff;
		/* Of segments that travel as one packet longer than 65,535 bytes, the kernel's. */
		if (!ip_len)
			ip_len = packet->len - at;
		if (words < 5 || ip_len < words * 4)
			return UNREADABLE;
		ip_len -= words * 4;
		at += words * 4;
		segment->key.source[0] = segment->key.source[1] = 0;
		segment->key.source[2] = bpf_htonl(0xffff);
		segment->key.source[3] = header[3];
		segment->key.destination[0] = segment->key.destination[1] = 0;
		segment->key.destination[2] = bpf_htonl(0xffff);
		segment->key.destination[3] = header[4];
	} else if (type == bpf_htons(ETH_IPV6)) {
		if (load(packet, at, header, 40))
			return UNREADABLE;
		if ((bpf_ntohl(header[1]) >> 8 & 0xff) != PROTOCOL_TCP)
			return NOT_TCP;
		ip_len = bpf_ntohl(header[1]) >> 16;
		at += 40;
		if (!ip_len)
			ip_len = packet->len - at;
		__builtin_memcpy(segment->key.source, &header[2], 16);
		__builtin_memcpy(segment->key.destination, &header[6], 16);
	} else {
		return NOT_TCP;
	}
	if (load(packet, at, header, 20))
		return UNREADABLE;
	__u32 tcp_len = bpf_ntohl(header[3]) >> 28 << 2;

	if (tcp_len < 20 || ip_len < tcp_len)
		return UNREADABLE;
	segment->key.source_port = header[0] & 0xffff;
	segment->key.destination_port = header[0] >> 16;
	segment->seq = bpf_ntohl(header[1]);
	segment->data_len = ip_len - tcp_len;
	segment->opens = (bpf_ntohl(header[3]) >> 16 & TCP_SYN) != 0;
	if (!segment->data_len && !segment->opens)
		return NO_DATA;
	segment->has_ticks = 0;
	segment->ticks = 0;
	if (tcp_len >= 32 && !load(packet, at + 20, header, 8) &&
	    header[0] == bpf_htonl(STAMPS_FIRST)) {
		segment->has_ticks = 1;
		segment->ticks = bpf_ntohl(header[1]);
	}
	return TAKEN;
}
