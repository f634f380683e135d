/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Layouts that user space writes and reads: wirelens-packetlog makes tables, wirelens-capture the
 * rest. All numbers are in the host's order.
 */
#pragma once

#include <linux/types.h>

#define CLASSES_MAX 8
#define TREES_MAX 32
/* Trees that are walked together, so that the processor waits for the memory of all at once. */
#define TREES_AT_ONCE 3
/* Places of trees: a power of two, so that a mask keeps within it. */
#define ROOTS_LEN 64
#define DEPTH_MAX 16
#define NODES_MAX 8192
#define LAYERS_MAX 4

/* Values of a packet: its own columns first, then those of each key. */
#define OWN_COLUMNS 32
#define KEY_COLUMNS 16
#define VALUES_LEN 128
/* One that is always 0: no column comes to be here. */
#define NO_VALUE (VALUES_LEN - 1)

/* Ratios of a key. */
enum ratio { SIZE_MEAN = 1, SIZE_VARIANCE = 2, GAP_MEAN = 4, GAP_VARIANCE = 8 };
#define RATIO_KINDS 4

enum key { OF_FLOW, OF_SOURCE, OF_DESTINATION, KEYS_LEN };
/* A power of two, so that a mask keeps within it. */
#define KEYS_ROOM 4

#define KEEP_ALL 0xffffffff

/* To the left where a value is at most the limit. */
struct node {
	/* Of a ratio in the unit that ratio() has. */
	__s64 limit;
	/* The left child; the right one follows it. A leaf compares NO_VALUE with 0, and is its own
	 * left child, so that trees of different depth can be walked for as long.
	 */
	__u32 left;
	__u32 column;
};

struct forest {
	__u32 tree_count;
	/* Of its deepest tree. */
	__u32 depth;
	/* Behind those of trees that of a leaf without weights, so that there are always enough. */
	__u32 roots[ROOTS_LEN];
};

/* A classifier as `packetlog::integer` computes it. */
struct model {
	__u32 class_count;
	/* By enum key a bit. */
	__u32 keys;
	/* The key without whose sums the packet's own forest decides; KEYS_LEN for none. */
	__u32 main;
	/* By enum key RATIO_KINDS bits: which ratios are compared. */
	__u32 ratios;
	struct forest of_flow;
	struct forest of_packet;
	struct node nodes[NODES_MAX];
	__u32 weights[NODES_MAX * CLASSES_MAX];
};

/* How much is kept of each class. */
struct table {
	__u32 generation;
	__u32 unused;
	/* Bytes of payload, or KEEP_ALL. */
	__u32 keep[CLASSES_MAX];
};

struct control {
	__u64 seed[2];
	__u64 secret;
	__u64 window_ns;
	/* From the clock of the kernel's programs to that of time stamps. */
	__s64 clock_offset_ns;
	/* The time, where a test sets it. */
	__s64 clock_ns;
	__u32 layers;
	/* Buckets of a layer, less one. */
	__u32 mask;
	/* Which of two is in force. User space writes the other one, then this. */
	__u32 table_at;
	__u32 model_at;
	struct table tables[2];
	/* Whether frames go to the socket of QUEUES and not up the network stack. */
	__u32 hands_over;
	__u32 unused;
};

/* What is said of a frame, in front of what is kept of it. */
struct note {
	__u64 secret;
	/* Bytes of the frame as it came. */
	__u32 wire_len;
	/* Of all trees together, and how much of it is the class's. */
	__u32 all_weight;
	__u32 class_weight;
	__u32 generation;
	__u16 class;
	__u8 is_by_flow;
	__u8 unused[5];
	/* By the clock of the kernel's programs. */
	__u64 time_ns;
};

/* In place of a class: handed over, and not judged. */
#define NOT_JUDGED 0xffff

/* The note within a link header of its own: the addresses are the frame's, the type is one for
 * experiments, so that the network stack passes it to captures alone.
 */
#define NOTE_TYPE 0x88b5

struct noted {
	__u8 addresses[12];
	__be16 type;
	__u16 unused;
	struct note note;
};

enum count {
	COUNT_SEEN,
	COUNT_JUDGED,
	/* Not Ethernet with IPv4 or IPv6. */
	COUNT_OTHER_NETWORK,
	/* A header that only user space reads: options, extensions, fragments, tunnels, faults. */
	COUNT_OTHER_HEADER,
	/* Neither TCP nor UDP. */
	COUNT_OTHER_TRANSPORT,
	/* Longer than a packet of the usual MTU. */
	COUNT_LONG,
	/* There was no room in front of the frame. */
	COUNT_NO_ROOM,
	/* No sums: its key found no bucket, or another processor held it for long. */
	COUNT_REFUSED,
	COUNT_BYTES,
	COUNT_CUT_BYTES,
	/* Went up the network stack, since its receive queue has no socket. */
	COUNT_OTHER_QUEUE,
	COUNTS_LEN,
};

#define COUNTS_ROOM 16

struct counts {
	__u64 of[COUNTS_ROOM];
};
