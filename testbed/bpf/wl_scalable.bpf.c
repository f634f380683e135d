/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Scalable TCP, T. Kelly, Computer Communication Review 33 (2), 2003: growth and cut are both a
 * share of the window, so it recovers from a loss in the same number of round trips at any rate.
 * A queue fills along an exponential instead of a line.
 */
#include "tcp.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* a = 0.01 packets an acknowledged packet, b = 1/8 at a loss. */
#define ACKED_PER_PACKET 100
#define CUT_SHIFT 3
/* Up to here it is Reno, and so is fair to it where Reno does well. */
#define LEGACY_CWND 16

struct scalable {
	__u32 cwnd_before_cut;
};

SEC("struct_ops/wl_scalable_ssthresh")
__u32 BPF_PROG(wl_scalable_ssthresh, struct sock *sk)
{
	struct scalable *state = state_of(sk);
	__u32 cwnd = tcp_of(sk)->snd_cwnd;
	__u32 cut = cwnd <= LEGACY_CWND ? cwnd / 2 : cwnd >> CUT_SHIFT;

	state->cwnd_before_cut = cwnd;
	return at_least(cwnd - cut, CWND_MIN);
}

SEC("struct_ops/wl_scalable_cong_avoid")
void BPF_PROG(wl_scalable_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);

	grow(tp, tp->snd_cwnd <= LEGACY_CWND ? tp->snd_cwnd : ACKED_PER_PACKET, acked);
}

SEC("struct_ops/wl_scalable_undo_cwnd")
__u32 BPF_PROG(wl_scalable_undo_cwnd, struct sock *sk)
{
	const struct scalable *state = state_of(sk);

	return at_least(tcp_of(sk)->snd_cwnd, state->cwnd_before_cut);
}

SEC(".struct_ops")
struct tcp_congestion_ops wl_scalable = {
	.ssthresh = (void *)wl_scalable_ssthresh,
	.cong_avoid = (void *)wl_scalable_cong_avoid,
	.undo_cwnd = (void *)wl_scalable_undo_cwnd,
	.name = "wl_scalable",
};
