/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Classifies packets where the driver hands them over, and cuts each to what the packet log keeps
 * of its class: TitanLog's data plane (sections IV and VI-A) as XDP, for interfaces that carry
 * mirrored traffic alone, since what is cut here is cut for all.
 *
 * A note in front of what is left has the frame's length and the verdict, under a secret that no
 * sender knows: there is room in front of every frame, and not behind. A frame that the program
 * does not judge goes up as it came, without a note.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "cut.h"
#include "arithmetic.h"
#include "headers.h"
#include "sums.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What a packet needs beyond the stack. */
struct scratch {
	struct headers headers;
	struct options options;
	struct sums sums[KEYS_ROOM];
	__s64 values[VALUES_LEN];
	__u64 weights[CLASSES_MAX];
	__u32 leaves[TREES_AT_ONCE];
	__u32 window;
	/* Since the beginning of the window. */
	__u64 now_ns;
	__u32 all_weight;
	__u32 class_weight;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct control);
} CONTROL SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct model);
} MODELS SEC(".maps");

/* By key, then layer. User space sets its length. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} BUCKETS SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} SCRATCH SEC(".maps");

/* The socket to which frames of the first receive queue are handed over, if any are. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} QUEUES SEC(".maps");

/* By processor, and read by user space without a call. User space sets its length. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct counts);
} COUNTS SEC(".maps");

static __always_inline struct counts *counts_of(void)
{
	__u32 processor = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&COUNTS, &processor);
}

static __always_inline struct control *control_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&CONTROL, &zero);
}

static __always_inline struct scratch *scratch_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&SCRATCH, &zero);
}

static __always_inline struct model *model_of(__u32 at)
{
	at &= 1;
	return bpf_map_lookup_elem(&MODELS, &at);
}

/* The sums of a packet's key, its own included. */
static __always_inline int observe(const struct control *control, __u32 key,
				   struct arrival *packet, struct sums *found)
{
	struct counts *counts;
	__u64 hash = packet->hash;

	for (__u32 layer = 0; layer < LAYERS_MAX; layer++) {
		enum taking taking;
		struct bucket *bucket;
		__u32 place;

		if (layer >= control->layers)
			break;
		place = (key * control->layers + layer) * (control->mask + 1) +
			((__u32)(hash >> 32) & control->mask);
		bucket = bpf_map_lookup_elem(&BUCKETS, &place);
		if (!bucket)
			break;
		taking = bucket_take(bucket, packet, layer + 1 == control->layers, found);
		if (taking == TAKEN)
			return 1;
		if (taking == NOT_HELD)
			break;
		hash = mixed(hash);
	}
	counts = counts_of();
	if (counts)
		counts->of[COUNT_REFUSED] += 1;
	return 0;
}

static __always_inline void put(__s64 *values, __u32 at, __s64 value)
{
	values[at & (VALUES_LEN - 1)] = value;
}

/* Columns of the packet alone, in the order of `features::PacketColumn`. */
static __always_inline void put_own(const struct headers *headers, __s64 *values)
{
	__s32 one = headers->source_port, other = headers->destination_port;
	__s32 flags = headers->tcp_flags;
	__u32 at = 0;

	put(values, at++, headers->wire_len);
	put(values, at++, headers->size);
	put(values, at++, headers->payload_len);
	put(values, at++, headers->is_ipv6 ? 6 : 4);
	put(values, at++, headers->protocol);
	put(values, at++, headers->is_ipv6 ? IPV6_LEN : IPV4_LEN);
	put(values, at++, headers->transport_len);
	put(values, at++, one);
	put(values, at++, other);
	put(values, at++, one < other ? one : other);
	put(values, at++, one < other ? other : one);
	put(values, at++, flags);
	for (__u32 bit = 0; bit < 8; bit++)
		put(values, at++, flags < 0 ? -1 : flags >> bit & 1);
	put(values, at++, flags < 0 ? -1 : headers->tcp_window);
	put(values, at++, 0);
	put(values, at++, headers->dont_fragment);
	put(values, at++, headers->ecn);
	put(values, at++, -1);
	put(values, at++, -1);
	put(values, at++, -1);
	put(values, at++, -1);
	put(values, at++, 0);
}

/* The variance of so many numbers. */
static __always_inline __s64 variance(const struct spread *spread, __u32 number)
{
	__u64 distance = spread->sum < 0 ? -spread->sum : spread->sum;
	__u64 of_mean;

	if (!spread->squares)
		return 0;
	of_mean = square_over(distance, number);
	return spread->squares > of_mean ? ratio(spread->squares - of_mean, number) : 0;
}

/* Columns of a key, in the order of `features::SumColumn`. */
static __always_inline void put_sums(const struct model *model, __u32 key, const struct sums *sums,
				     int is_back, __s64 *values)
{
	__u32 at = OWN_COLUMNS + key * KEY_COLUMNS;
	__u32 ratios = model->ratios >> (RATIO_KINDS * key);
	__u32 gaps = sums->packets - 1;
	__u64 gap_sum = sums->last_ns - sums->first_ns;

	put(values, at++, sums->packets);
	put(values, at++, is_back ? sums->packets - sums->marked : sums->marked);
	put(values, at++, sums->size_sum);
	put(values, at++, sums->size_max);
	put(values, at++, sums->size_min);
	put(values, at++, ratios & SIZE_MEAN ? ratio(sums->size_sum, sums->packets) : 0);
	put(values, at++, ratios & SIZE_VARIANCE ? variance(&sums->sizes, sums->packets) : 0);
	put(values, at++, gap_sum);
	put(values, at++, gaps ? sums->gap_max : -1);
	put(values, at++, gaps ? sums->gap_min : -1);
	put(values, at++, !gaps ? -1 : ratios & GAP_MEAN ? ratio(gap_sum, gaps) : 0);
	put(values, at++, !gaps ? -1 : ratios & GAP_VARIANCE ? variance(&sums->gaps, gaps) : 0);
}

static __always_inline void put_missing(__s64 *values, __u32 key)
{
	for (__u32 column = 0; column < KEY_COLUMNS; column++)
		put(values, OWN_COLUMNS + key * KEY_COLUMNS + column, -1);
}

/* Whether a number is less than another, without a branch: which way a packet goes in a tree is
 * what no processor predicts.
 */
static __always_inline __u32 is_less(__s64 one, __s64 other)
{
	__s64 distance = (__s64)((__u64)one - (__u64)other);

	return (__u64)(distance ^ ((one ^ other) & (distance ^ one))) >> 63;
}

/* The next node of a packet in a tree. */
static __always_inline __u32 child(const struct model *model, const __s64 *values, __u32 at)
{
	const struct node *node = &model->nodes[at & (NODES_MAX - 1)];

	return node->left + is_less(node->limit, values[node->column & (VALUES_LEN - 1)]);
}

static __always_inline __u32 root(const struct forest *forest, __u32 tree)
{
	/* Else the compiler leaves out the mask, and the verifier does not see why it may. */
	asm volatile("" : "+r"(tree));
	return forest->roots[tree & (ROOTS_LEN - 1)];
}

/* Of a leaf that of a class. */
static __always_inline __u32 weight(const struct model *model, __u32 leaf, __u32 class)
{
	return model->weights[(leaf & (NODES_MAX - 1)) * CLASSES_MAX + class];
}

/*
 * What follows are functions that the verifier looks at one by one, each with any arguments: inlined
 * into one program, their branches multiply to more states than it visits.
 */

/* COUNT_JUDGED once the packet's headers are in the scratch memory, or why they are not. */
__noinline int take_headers(struct xdp_md *context, const struct control *control,
			    struct scratch *scratch)
{
	struct frame frame = {
		.context = context,
		.data = (const void *)(long)context->data,
		.end = (const void *)(long)context->data_end,
	};

	if (!control || !scratch)
		return COUNT_OTHER_NETWORK;
	frame.options = &scratch->options;
	return read_headers(control, &frame, &scratch->headers);
}

/* Adds the packet to the sums of one of its keys, and these to the packet's values. Packets of the
 * key; 0 where there are no sums.
 */
__noinline __u32 take_sums(const struct control *control, struct scratch *scratch,
			   const struct model *model, __u32 key, __u32 is_marked)
{
	struct arrival packet = { .is_marked = is_marked };
	struct sums *sums;
	int is_back;

	if (!control || !scratch || !model || key >= KEYS_LEN)
		return 0;
	/* Else the compiler leaves out the mask, and the verifier does not see why it may. */
	asm volatile("" : "+r"(key));
	key &= KEYS_ROOM - 1;
	sums = &scratch->sums[key];
	packet.now_ns = scratch->now_ns;
	packet.window = scratch->window;
	packet.hash = scratch->headers.flow_hash;
	if (key != OF_FLOW) {
		const __u64 *host = scratch->headers.hosts[key == OF_DESTINATION];

		packet.hash = hash_words(control, host[0], host[1]);
	}
	packet.size = scratch->headers.size;
	if (!observe(control, key, &packet, sums)) {
		put_missing(scratch->values, key);
		return 0;
	}
	is_back = key == OF_FLOW && !scratch->headers.is_low_to_high;
	put_sums(model, key, sums, is_back, scratch->values);
	return sums->packets;
}

/* The leaves of this tree and those behind it to which the packet comes whose values are in the
 * scratch memory.
 */
__noinline int take_leaves(struct scratch *scratch, const struct model *model, __u32 is_by_flow,
			   __u32 tree)
{
	const struct forest *forest;
	__u32 one, two, three, depth;

	if (!scratch || !model)
		return 0;
	forest = is_by_flow ? &model->of_flow : &model->of_packet;
	depth = forest->depth;
	one = root(forest, tree);
	two = root(forest, tree + 1);
	three = root(forest, tree + 2);
	for (__u32 level = 0; level < DEPTH_MAX; level++) {
		if (level >= depth)
			break;
		one = child(model, scratch->values, one);
		two = child(model, scratch->values, two);
		three = child(model, scratch->values, three);
	}
	scratch->leaves[0] = one;
	scratch->leaves[1] = two;
	scratch->leaves[2] = three;
	return 0;
}

/* The class of the packet whose values are in the scratch memory: that of the highest weight, of
 * several such the first.
 */
__noinline __u32 take_class(struct scratch *scratch, const struct model *model, __u32 is_by_flow)
{
	const struct forest *forest;
	__u64 all = 0, highest = 0;
	__u32 class = 0, class_count;

	if (!scratch || !model)
		return 0;
	put_own(&scratch->headers, scratch->values);
	forest = is_by_flow ? &model->of_flow : &model->of_packet;
	class_count = model->class_count;
	for (__u32 each = 0; each < CLASSES_MAX; each++)
		scratch->weights[each] = 0;
	for (__u32 tree = 0; tree < TREES_MAX; tree += TREES_AT_ONCE) {
		if (tree >= forest->tree_count)
			break;
		take_leaves(scratch, model, is_by_flow, tree);
		for (__u32 each = 0; each < CLASSES_MAX; each++) {
			if (each >= class_count)
				break;
			for (__u32 next = 0; next < TREES_AT_ONCE; next++)
				scratch->weights[each] +=
					weight(model, scratch->leaves[next], each);
		}
	}
	for (__u32 each = 0; each < CLASSES_MAX; each++) {
		if (each >= class_count)
			break;
		all += scratch->weights[each];
		if (scratch->weights[each] > highest) {
			highest = scratch->weights[each];
			class = each;
		}
	}
	scratch->all_weight = all;
	scratch->class_weight = highest;
	return class;
}

static __always_inline void judge(const struct control *control, struct scratch *scratch,
				  __u32 model_at, __u64 time_ns, struct note *note)
{
	const struct headers *headers = &scratch->headers;
	struct model *model = model_of(model_at);
	__u64 now_ns = control->clock_ns;
	__u32 packets[KEYS_LEN] = {};
	__u32 window, is_first;

	if (!model || !control->window_ns)
		return;
	if (!now_ns)
		now_ns = time_ns + control->clock_offset_ns;
	/* Never 0, which is that of a bucket without a window. */
	window = now_ns / control->window_ns;
	scratch->now_ns = now_ns % control->window_ns;
	scratch->window = window + !window;
	if (model->keys & 1 << OF_FLOW)
		packets[OF_FLOW] = take_sums(control, scratch, model, OF_FLOW,
					     headers->is_low_to_high);
	/* A packet of a flow of which this is all that is known began it. */
	is_first = packets[OF_FLOW] <= 1;
	if (model->keys & 1 << OF_SOURCE)
		packets[OF_SOURCE] = take_sums(control, scratch, model, OF_SOURCE, is_first);
	if (model->keys & 1 << OF_DESTINATION)
		packets[OF_DESTINATION] =
			take_sums(control, scratch, model, OF_DESTINATION, is_first);
	note->is_by_flow = (model->main == OF_FLOW && packets[OF_FLOW]) ||
			      (model->main == OF_SOURCE && packets[OF_SOURCE]) ||
			      (model->main == OF_DESTINATION && packets[OF_DESTINATION]);
	note->class = take_class(scratch, model, note->is_by_flow);
}

/* Where a frame goes. */
static __always_inline int way(const struct xdp_md *context, const struct control *control,
			       struct counts *counts)
{
	if (!control->hands_over)
		return XDP_PASS;
	if (context->rx_queue_index)
		counts->of[COUNT_OTHER_QUEUE] += 1;
	return bpf_redirect_map(&QUEUES, context->rx_queue_index, XDP_PASS);
}

SEC("xdp")
int cut(struct xdp_md *context)
{
	struct control *control = control_of();
	struct scratch *scratch = scratch_of();
	struct counts *counts = counts_of();
	struct note note = { .class = NOT_JUDGED };
	struct noted *noted;
	const struct noted *frame;
	const struct table *table;
	__u32 wire_len = 0, kept = 0;
	int cause;

	if (!control || !scratch || !counts)
		return XDP_PASS;
	counts->of[COUNT_SEEN] += 1;
	cause = take_headers(context, control, scratch);
	if (cause != COUNT_JUDGED) {
		counts->of[cause & (COUNTS_ROOM - 1)] += 1;
		/* A socket to which it is handed over knows its time from a note alone. */
		if (!control->hands_over)
			return XDP_PASS;
		wire_len = kept = bpf_xdp_get_buff_len(context);
	}
	/* Where a test sets the clock, no note is read for its time. */
	note.time_ns = control->clock_ns ? 0 : bpf_ktime_get_ns();
	if (cause == COUNT_JUDGED) {
		table = &control->tables[control->table_at & 1];
		judge(control, scratch, control->model_at, note.time_ns, &note);
		wire_len = scratch->headers.wire_len;
		note.all_weight = scratch->all_weight;
		note.class_weight = scratch->class_weight;
		note.generation = table->generation;
		kept = table->keep[note.class & (CLASSES_MAX - 1)];
		kept = kept > wire_len ? wire_len : kept + scratch->headers.payload_at;
		kept = kept > wire_len ? wire_len : kept;
	}
	note.secret = control->secret;
	note.wire_len = wire_len;
	if (bpf_xdp_adjust_head(context, -(int)sizeof(*noted))) {
		counts->of[COUNT_NO_ROOM] += 1;
		return way(context, control, counts);
	}
	if (kept < wire_len)
		bpf_xdp_adjust_tail(context, (int)kept - (int)wire_len);
	noted = (void *)(long)context->data;
	/* Where the frame begins; as such a structure, so that both are copied by words. */
	frame = noted + 1;
	if ((const void *)(frame->addresses + sizeof(frame->addresses)) >
	    (const void *)(long)context->data_end)
		return way(context, control, counts);
	__builtin_memcpy(noted->addresses, frame->addresses, sizeof(noted->addresses));
	noted->type = bpf_htons(NOTE_TYPE);
	noted->note = note;
	noted->unused = 0;
	if (cause == COUNT_JUDGED) {
		counts->of[COUNT_JUDGED] += 1;
		counts->of[COUNT_BYTES] += wire_len;
		counts->of[COUNT_CUT_BYTES] += wire_len - kept;
	}
	return way(context, control, counts);
}
