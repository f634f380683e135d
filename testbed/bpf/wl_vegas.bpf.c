/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * TCP Vegas, L. S. Brakmo and L. L. Peterson, IEEE JSAC 13 (8), 1995: the window is steered, once
 * a round trip, so that between two and four packets of the flow wait in queues, and no loss is
 * needed to find the rate.
 *
 * The paper times one packet a round. Here the round trip is the smallest of the round: delayed
 * acknowledgements and bursts only ever add to it, and each microsecond added would be taken for
 * a queue. A loss halves the window, as in RFC 5681; the paper's finer timers are the kernel's own.
 */
#include "tcp.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Packets in queues: grow below, shrink above; and the end of slow start. */
#define ALPHA_PACKETS 2
#define BETA_PACKETS 4
#define GAMMA_PACKETS 1
/* Fewer may all be delayed acknowledgements; such a round is one of Reno's. */
#define SAMPLES_MIN 3

enum { CA_EVENT_TX_START = 0, CA_EVENT_CWND_RESTART = 1 };

struct vegas {
	__u32 base_rtt_us; /* smallest seen on this connection: the path without a queue */
	__u32 round_rtt_us; /* smallest seen in this round */
	__u32 sample_count;
	__u32 round_end;
	__u32 is_doubling_round; /* slow start grows in every other round, to measure in between */
	__u32 cwnd_before_cut;
};

INTERNAL void begin_round(const struct tcp_sock *tp, struct vegas *state)
{
	state->round_end = tp->snd_nxt;
	state->round_rtt_us = NO_RTT_YET;
	state->sample_count = 0;
}

SEC("struct_ops/wl_vegas_init")
void BPF_PROG(wl_vegas_init, struct sock *sk)
{
	struct vegas *state = state_of(sk);

	state->base_rtt_us = NO_RTT_YET;
	begin_round(tcp_of(sk), state);
}

SEC("struct_ops/wl_vegas_pkts_acked")
void BPF_PROG(wl_vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *state = state_of(sk);
	__s32 rtt_us = sample->rtt_us;

	if (rtt_us <= 0)
		return;
	state->base_rtt_us = at_most(state->base_rtt_us, rtt_us);
	state->round_rtt_us = at_most(state->round_rtt_us, rtt_us);
	state->sample_count++;
}

/* Diff of the paper, in packets: (cwnd / base - cwnd / rtt) * base. True if above `packets`. */
INTERNAL bool queues_more_than(__u32 packets, __u32 cwnd, const struct vegas *state)
{
	__u64 queueing_us = state->round_rtt_us - state->base_rtt_us;

	return cwnd * queueing_us > (__u64)packets * state->round_rtt_us;
}

INTERNAL void steer(struct tcp_sock *tp, const struct vegas *state)
{
	__u32 cwnd = tp->snd_cwnd;

	if (in_slow_start(tp)) {
		if (queues_more_than(GAMMA_PACKETS, cwnd, state))
			tp->snd_ssthresh = cwnd;
		return;
	}
	if (queues_more_than(BETA_PACKETS, cwnd, state))
		tp->snd_cwnd = at_least(cwnd - 1, CWND_MIN);
	else if (!queues_more_than(ALPHA_PACKETS, cwnd, state))
		tp->snd_cwnd = at_most(cwnd + 1, tp->snd_cwnd_clamp);
	/* A smaller window must not look like slow start. */
	tp->snd_ssthresh = at_most(tp->snd_ssthresh, tp->snd_cwnd);
}

SEC("struct_ops/wl_vegas_cong_avoid")
void BPF_PROG(wl_vegas_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct vegas *state = state_of(sk);

	if (!is_cwnd_limited(tp))
		return;
	if (seq_after(ack, state->round_end)) {
		if (state->sample_count >= SAMPLES_MIN)
			steer(tp, state);
		else if (!in_slow_start(tp))
			tp->snd_cwnd = at_most(tp->snd_cwnd + 1, tp->snd_cwnd_clamp);
		state->is_doubling_round = !state->is_doubling_round;
		begin_round(tp, state);
	}
	/* What this round shows so far must allow it: by its end the window has doubled again. */
	if (in_slow_start(tp) && state->is_doubling_round &&
	    !queues_more_than(GAMMA_PACKETS, tp->snd_cwnd, state))
		tcp_slow_start(tp, acked);
}

SEC("struct_ops/wl_vegas_ssthresh")
__u32 BPF_PROG(wl_vegas_ssthresh, struct sock *sk)
{
	struct vegas *state = state_of(sk);

	state->cwnd_before_cut = tcp_of(sk)->snd_cwnd;
	return at_least(tcp_of(sk)->snd_cwnd / 2, CWND_MIN);
}

/* What was timed before a pause or amid a recovery says nothing about the round to come. */
SEC("struct_ops/wl_vegas_set_state")
void BPF_PROG(wl_vegas_set_state, struct sock *sk, __u8 new_state)
{
	if (new_state == CA_OPEN)
		begin_round(tcp_of(sk), state_of(sk));
}

SEC("struct_ops/wl_vegas_cwnd_event")
void BPF_PROG(wl_vegas_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == CA_EVENT_TX_START || event == CA_EVENT_CWND_RESTART)
		begin_round(tcp_of(sk), state_of(sk));
}

SEC("struct_ops/wl_vegas_undo_cwnd")
__u32 BPF_PROG(wl_vegas_undo_cwnd, struct sock *sk)
{
	const struct vegas *state = state_of(sk);

	return at_least(tcp_of(sk)->snd_cwnd, state->cwnd_before_cut);
}

SEC(".struct_ops")
struct tcp_congestion_ops wl_vegas = {
	.init = (void *)wl_vegas_init,
	.ssthresh = (void *)wl_vegas_ssthresh,
	.cong_avoid = (void *)wl_vegas_cong_avoid,
	.set_state = (void *)wl_vegas_set_state,
	.cwnd_event = (void *)wl_vegas_cwnd_event,
	.pkts_acked = (void *)wl_vegas_pkts_acked,
	.undo_cwnd = (void *)wl_vegas_undo_cwnd,
	.name = "wl_vegas",
};
