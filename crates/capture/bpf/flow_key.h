/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How a flow is named, and what its headers hold on the way to its ports. */
#pragma once

#include <linux/types.h>

#define ETH_LEN 14
#define VLAN_LEN 4
#define VLAN_TAGS_MAX 2
#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define ETH_VLAN 0x8100
#define ETH_VLAN_OUTER 0x88a8
#define PROTOCOL_TCP 6

/* Flows that are listed at most. */
#define FLOWS_MAX 65536

struct flow_key {
	/* IPv4 in its IPv4-mapped form. */
	__u32 source[4];
	__u32 destination[4];
	__u16 source_port;
	__u16 destination_port;
};
