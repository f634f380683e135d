/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Headers of plain frames: Ethernet, at most one VLAN tag, IP without options or extensions, TCP or
 * UDP, nothing wrong. What these are is what the dissector of user space finds at once; of all
 * others it reads the headers, and nothing is cut of them here.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "arithmetic.h"

#define ETH_LEN 14
#define VLAN_LEN 4
#define IPV4_LEN 20
#define IPV6_LEN 40
#define UDP_LEN 8
#define TCP_LEN 20
#define TCP_OPTIONS_MAX 40
#define OPTIONS_MASK 63
/* What a TCP segment of the usual MTU has at most, link header left out. */
#define USUAL_LEN 1500
/* UDP to or from these is a tunnel. */
#define PORT_VXLAN 4789
#define PORT_GENEVE 6081
#define PORT_GTPU 2152

struct headers {
	/* Of the flow a hash; of both hosts what theirs are made of. */
	__u64 flow_hash;
	__u64 hosts[2][2];
	__u32 is_low_to_high;
	__u32 wire_len;
	__u32 size;
	__u32 payload_len;
	__u32 payload_at;
	__u32 transport_len;
	__u16 source_port;
	__u16 destination_port;
	__u16 tcp_window;
	__s16 tcp_flags;
	__s8 dont_fragment;
	__u8 ecn;
	__u8 protocol;
	__u8 is_ipv6;
	__u8 has_tag;
};

struct ipv4 {
	__u8 version_words;
	__u8 service;
	__be16 total_len;
	__be16 identification;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
} __attribute__((packed, aligned(2)));

struct ipv6 {
	__be32 version_class_label;
	__be16 payload_len;
	__u8 next_header;
	__u8 hop_limit;
	__be32 source[4];
	__be32 destination[4];
} __attribute__((packed, aligned(2)));

struct ports {
	__be16 source;
	__be16 destination;
} __attribute__((packed, aligned(2)));

struct udp {
	struct ports ports;
	__be16 len;
	__be16 checksum;
} __attribute__((packed, aligned(2)));

struct tcp {
	struct ports ports;
	__be32 seq;
	__be32 ack;
	__u8 words;
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
} __attribute__((packed, aligned(2)));

struct options {
	__u8 bytes[OPTIONS_MASK + 1];
	/* Where the next one begins. The verifier forgets what is in memory, and so does not follow
	 * each way that options can add up to it.
	 */
	volatile __u32 position;
};

/* A packet on its way, and room for its TCP options. */
struct frame {
	struct xdp_md *context;
	const unsigned char *data;
	const void *end;
	struct options *options;
};

/* Whether every option ends where it should. */
static __always_inline int has_right_options(const struct frame *frame, const unsigned char *at,
					     __u32 len)
{
	struct options *options = frame->options;

	if (!len)
		return 1;
	/* Two NOPs and time stamps, as RFC 7323 recommends. */
	if (len == 12 && (const void *)(at + 4) <= frame->end && at[0] == 1 && at[1] == 1 &&
	    at[2] == 8 && at[3] == 10)
		return 1;
	if (len > TCP_OPTIONS_MAX ||
	    bpf_xdp_load_bytes(frame->context, at - frame->data, options->bytes, len))
		return 0;
	options->position = 0;
	for (__u32 option = 0; option < TCP_OPTIONS_MAX; option++) {
		__u32 position = options->position, kind, option_len;

		if (position >= len)
			break;
		kind = options->bytes[position & OPTIONS_MASK];
		if (kind == 0)
			break;
		option_len = kind == 1 ? 1 : options->bytes[(position + 1) & OPTIONS_MASK];
		if (kind != 1 && (position + 1 >= len || option_len < 2))
			return 0;
		if (option_len > len - position)
			return 0;
		options->position = position + option_len;
	}
	return 1;
}

/* The transport header of `len` bytes; COUNT_JUDGED, or why not. */
static __always_inline enum count read_transport(const struct frame *frame,
						 const unsigned char *at, __u32 len,
						 struct headers *headers)
{
	const void *end = frame->end;

	if (headers->protocol == 6) {
		const struct tcp *tcp = (const void *)at;
		__u32 header_len;

		if ((const void *)(tcp + 1) > end || len < TCP_LEN)
			return COUNT_OTHER_HEADER;
		header_len = (tcp->words >> 4) * 4;
		if (header_len < TCP_LEN || header_len > len ||
		    (const void *)(at + header_len) > end ||
		    !has_right_options(frame, at + TCP_LEN, header_len - TCP_LEN))
			return COUNT_OTHER_HEADER;
		headers->tcp_flags = (tcp->words & 1) << 8 | tcp->flags;
		headers->tcp_window = bpf_ntohs(tcp->window);
		headers->source_port = bpf_ntohs(tcp->ports.source);
		headers->destination_port = bpf_ntohs(tcp->ports.destination);
		headers->transport_len = header_len;
		headers->payload_len = len - header_len;
		return COUNT_JUDGED;
	}
	if (headers->protocol == 17) {
		const struct udp *udp = (const void *)at;
		__u32 datagram_len;

		if ((const void *)(udp + 1) > end)
			return COUNT_OTHER_HEADER;
		headers->source_port = bpf_ntohs(udp->ports.source);
		headers->destination_port = bpf_ntohs(udp->ports.destination);
		datagram_len = bpf_ntohs(udp->len);
		if (datagram_len > len || datagram_len < UDP_LEN ||
		    headers->destination_port == PORT_VXLAN ||
		    headers->destination_port == PORT_GENEVE || headers->source_port == PORT_GTPU ||
		    headers->destination_port == PORT_GTPU)
			return COUNT_OTHER_HEADER;
		headers->tcp_flags = -1;
		headers->transport_len = UDP_LEN;
		headers->payload_len = datagram_len - UDP_LEN;
		return COUNT_JUDGED;
	}
	return COUNT_OTHER_TRANSPORT;
}

/* packet::FlowKey and its hash. */
static __always_inline void hash_ipv4(const struct control *control, const struct ipv4 *ip,
				      struct headers *headers)
{
	__u64 source = bpf_ntohl(ip->source), destination = bpf_ntohl(ip->destination);
	__u64 one = source << 16 | headers->source_port;
	__u64 other = destination << 16 | headers->destination_port;
	__u64 low = one < other ? one : other, high = one < other ? other : one;
	__u64 rest = (low & 0xffff) << 48 | (high & 0xffff) << 32 |
		     (__u64)headers->protocol << 24 | 4 << 16;

	headers->is_low_to_high = one <= other;
	headers->flow_hash = hash_words(control, (low >> 16) << 32 | high >> 16, rest);
	headers->hosts[0][0] = source;
	headers->hosts[1][0] = destination;
	headers->hosts[0][1] = headers->hosts[1][1] = 4;
}

static __always_inline __u64 half(const __be32 *address)
{
	return (__u64)bpf_ntohl(address[0]) << 32 | bpf_ntohl(address[1]);
}

static __always_inline void hash_ipv6(const struct control *control, const struct ipv6 *ip,
				      struct headers *headers)
{
	__u64 source[2] = { half(ip->source), half(ip->source + 2) };
	__u64 destination[2] = { half(ip->destination), half(ip->destination + 2) };
	__u64 of_source = hash_words(control, source[0], source[1]);
	__u64 of_destination = hash_words(control, destination[0], destination[1]);
	__u16 from = headers->source_port, to = headers->destination_port;
	int is_ordered = 1;
	__u64 rest;

	if (source[0] != destination[0])
		is_ordered = source[0] < destination[0];
	else if (source[1] != destination[1])
		is_ordered = source[1] < destination[1];
	else
		is_ordered = from <= to;
	rest = (__u64)(is_ordered ? from : to) << 48 | (__u64)(is_ordered ? to : from) << 32 |
	       (__u64)headers->protocol << 24 | 6 << 16;
	headers->is_low_to_high = is_ordered;
	headers->flow_hash = hash_words(control, (is_ordered ? of_source : of_destination) ^ rest,
					is_ordered ? of_destination : of_source);
	/* Of an address alone the lower half is first. */
	headers->hosts[0][0] = source[1];
	headers->hosts[0][1] = source[0];
	headers->hosts[1][0] = destination[1];
	headers->hosts[1][1] = destination[0];
}

/* COUNT_JUDGED, or why the frame's headers are left to user space. */
static __always_inline enum count read_headers(const struct control *control,
					       const struct frame *frame, struct headers *headers)
{
	const unsigned char *data = frame->data, *network = data + ETH_LEN;
	const void *end = frame->end;
	enum count cause;
	__u32 wire_len = (const unsigned char *)end - data;
	__u32 type, ip_len;

	if ((const void *)(data + ETH_LEN + VLAN_LEN) > end)
		return COUNT_OTHER_NETWORK;
	headers->wire_len = wire_len;
	type = data[12] << 8 | data[13];
	headers->has_tag = type == 0x8100 || type == 0x88a8;
	if (headers->has_tag) {
		type = data[16] << 8 | data[17];
		network += VLAN_LEN;
	}
	headers->payload_at = headers->has_tag ? ETH_LEN + VLAN_LEN : ETH_LEN;
	if (type == 0x0800) {
		const struct ipv4 *ip = (const void *)network;

		if ((const void *)(ip + 1) > end)
			return COUNT_OTHER_HEADER;
		ip_len = bpf_ntohs(ip->total_len);
		if (ip->version_words != 0x45 || ip->fragment & bpf_htons(0x3fff) ||
		    ip_len < IPV4_LEN || headers->payload_at + ip_len > wire_len)
			return COUNT_OTHER_HEADER;
		headers->protocol = ip->protocol;
		headers->is_ipv6 = 0;
		headers->ecn = ip->service & 3;
		headers->dont_fragment = !!(ip->fragment & bpf_htons(0x4000));
		cause = read_transport(frame, network + IPV4_LEN, ip_len - IPV4_LEN, headers);
		if (cause != COUNT_JUDGED)
			return cause;
		hash_ipv4(control, ip, headers);
		headers->payload_at += IPV4_LEN + headers->transport_len;
		headers->size = headers->payload_len + IPV4_LEN + headers->transport_len;
	} else if (type == 0x86dd) {
		const struct ipv6 *ip = (const void *)network;

		if ((const void *)(ip + 1) > end)
			return COUNT_OTHER_HEADER;
		ip_len = bpf_ntohs(ip->payload_len);
		if (network[0] >> 4 != 6 || !ip_len ||
		    headers->payload_at + IPV6_LEN + ip_len > wire_len)
			return COUNT_OTHER_HEADER;
		headers->protocol = ip->next_header;
		/* Hop by hop, routing, fragment, authentication, destination options. */
		if (headers->protocol == 0 || headers->protocol == 43 || headers->protocol == 44 ||
		    headers->protocol == 51 || headers->protocol == 60)
			return COUNT_OTHER_HEADER;
		headers->is_ipv6 = 1;
		headers->ecn = network[1] >> 4 & 3;
		headers->dont_fragment = -1;
		cause = read_transport(frame, network + IPV6_LEN, ip_len, headers);
		if (cause != COUNT_JUDGED)
			return cause;
		hash_ipv6(control, ip, headers);
		headers->payload_at += IPV6_LEN + headers->transport_len;
		headers->size = headers->payload_len + IPV6_LEN + headers->transport_len;
	} else {
		return COUNT_OTHER_NETWORK;
	}
	if (headers->size > USUAL_LEN)
		return COUNT_LONG;
	return COUNT_JUDGED;
}
