/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * TCP-Illinois, S. Liu, T. Basar and R. Srikant, VALUETOOLS 2006: losses say when to cut, delay
 * says how fast to grow and how much to cut. While the queue is short the window climbs steeply,
 * and ever more slowly as it fills, so over time it is a concave curve.
 */
#include "tcp.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Parameters of the paper's section 3. */
#define ALPHA_MAX 10
/* Packets a round trip. That alpha_min is 0.3 stands in the numbers of `growth`. */
#define ONE 1024U
#define BETA_MIN (ONE / 8)
#define BETA_MAX (ONE / 2)
#define CWND_STANDARD 10 /* below, Reno */
#define CALM_ROUNDS_MIN 5 /* theta: a short queue must last before alpha_max is believed */

struct illinois {
	__u32 alpha; /* packets a round trip, times ONE */
	__u32 beta; /* share of the window that a loss costs, times ONE */
	__u32 base_rtt_us;
	__u32 max_rtt_us;
	__u64 rtt_sum_us; /* of this round */
	__u32 sample_count;
	__u32 round_end;
	__u32 calm_rounds;
	__u32 cwnd_before_cut;
};

INTERNAL void begin_round(const struct tcp_sock *tp, struct illinois *state)
{
	state->round_end = tp->snd_nxt;
	state->rtt_sum_us = 0;
	state->sample_count = 0;
}

SEC("struct_ops/wl_illinois_init")
void BPF_PROG(wl_illinois_init, struct sock *sk)
{
	struct illinois *state = state_of(sk);

	state->alpha = ONE;
	state->beta = BETA_MAX;
	state->base_rtt_us = NO_RTT_YET;
	begin_round(tcp_of(sk), state);
}

SEC("struct_ops/wl_illinois_pkts_acked")
void BPF_PROG(wl_illinois_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct illinois *state = state_of(sk);
	__s32 rtt_us = sample->rtt_us;

	if (rtt_us <= 0)
		return;
	state->base_rtt_us = at_most(state->base_rtt_us, rtt_us);
	state->max_rtt_us = at_least(state->max_rtt_us, rtt_us);
	state->rtt_sum_us += rtt_us;
	state->sample_count++;
}

/* f1 of the paper: hyperbola from alpha_max at d1 to alpha_min at dm, with kappa 1 and 2 put in. */
INTERNAL __u32 growth(struct illinois *state, __u64 queueing_us, __u64 max_us)
{
	__u64 d1_us = max_us / 100;
	__u64 span_us = max_us - d1_us;

	if (queueing_us > d1_us) {
		state->calm_rounds = 0;
		return 30 * ONE * span_us / (3 * span_us + 97 * (queueing_us - d1_us));
	}
	state->calm_rounds++;
	return state->calm_rounds < CALM_ROUNDS_MIN ? state->alpha : ALPHA_MAX * ONE;
}

/* f2: from beta_min up to a tenth of the longest delay, in a line, to beta_max at eight tenths. */
INTERNAL __u32 cut_share(__u64 queueing_us, __u64 max_us)
{
	__u64 d2_us = max_us / 10;
	__u64 d3_us = max_us * 8 / 10;

	if (queueing_us <= d2_us)
		return BETA_MIN;
	if (queueing_us >= d3_us)
		return BETA_MAX;
	return BETA_MIN + (queueing_us - d2_us) * (BETA_MAX - BETA_MIN) / (d3_us - d2_us);
}

INTERNAL void end_round(const struct tcp_sock *tp, struct illinois *state)
{
	__u64 max_us, queueing_us;

	if (state->sample_count == 0)
		return;
	max_us = state->max_rtt_us - state->base_rtt_us;
	queueing_us = state->rtt_sum_us / state->sample_count - state->base_rtt_us;
	if (tp->snd_cwnd < CWND_STANDARD || max_us == 0) {
		state->alpha = ONE;
		state->beta = BETA_MAX;
		return;
	}
	state->alpha = growth(state, queueing_us, max_us);
	state->beta = cut_share(queueing_us, max_us);
}

SEC("struct_ops/wl_illinois_cong_avoid")
void BPF_PROG(wl_illinois_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct illinois *state = state_of(sk);

	if (seq_after(ack, state->round_end)) {
		end_round(tp, state);
		begin_round(tp, state);
	}
	grow(tp, at_least(tp->snd_cwnd * ONE / at_least(state->alpha, 1), 1), acked);
}

SEC("struct_ops/wl_illinois_ssthresh")
__u32 BPF_PROG(wl_illinois_ssthresh, struct sock *sk)
{
	struct illinois *state = state_of(sk);
	__u32 cwnd = tcp_of(sk)->snd_cwnd;

	state->cwnd_before_cut = cwnd;
	return at_least(cwnd - (__u64)cwnd * state->beta / ONE, CWND_MIN);
}

/* After a timeout nothing learned of the path is trusted, save its shortest time. */
SEC("struct_ops/wl_illinois_set_state")
void BPF_PROG(wl_illinois_set_state, struct sock *sk, __u8 new_state)
{
	struct illinois *state = state_of(sk);

	if (new_state == CA_LOSS) {
		state->alpha = ONE;
		state->beta = BETA_MAX;
		state->calm_rounds = 0;
	}
	if (new_state == CA_LOSS || new_state == CA_OPEN)
		begin_round(tcp_of(sk), state);
}

SEC("struct_ops/wl_illinois_undo_cwnd")
__u32 BPF_PROG(wl_illinois_undo_cwnd, struct sock *sk)
{
	const struct illinois *state = state_of(sk);

	return at_least(tcp_of(sk)->snd_cwnd, state->cwnd_before_cut);
}

SEC(".struct_ops")
struct tcp_congestion_ops wl_illinois = {
	.init = (void *)wl_illinois_init,
	.ssthresh = (void *)wl_illinois_ssthresh,
	.cong_avoid = (void *)wl_illinois_cong_avoid,
	.set_state = (void *)wl_illinois_set_state,
	.pkts_acked = (void *)wl_illinois_pkts_acked,
	.undo_cwnd = (void *)wl_illinois_undo_cwnd,
	.name = "wl_illinois",
};
