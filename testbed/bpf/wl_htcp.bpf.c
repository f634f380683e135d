/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * H-TCP, D. Leith and R. Shorten, PFLDnet 2004 and draft-leith-tcp-htcp-06: growth depends on the
 * time since the last loss. For a second it is Reno's, then it rises with the square of time, so
 * the queue fills along a curve that bends upwards; the cut is sized so that the queue just drains.
 */
#include "tcp.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ONE 1024U
#define NS_PER_MS 1000000ULL
#define RENO_MS 1000ULL /* delta_L: as long as this since a loss, Reno */
/* What of the window stays after a loss: bounds, times ONE. */
#define KEPT_MIN (ONE / 2)
#define KEPT_MAX (ONE * 8 / 10)
/* A rate that changed by more than a fifth from loss to loss: others came or went, so be fair. */
#define RATE_CHANGE_DIVISOR 5
/* Beyond this growth, of 10 s without a loss, slow start would be slower; keeps sums in range. */
#define GROWTH_MS_MAX 10000ULL

struct htcp {
	__u64 last_loss_ns;
	__u64 round_start_ns;
	__u64 round_rate; /* packets delivered a second, in the round before this one */
	__u64 rate_at_loss;
	__u32 delivered_before;
	__u32 round_end;
	__u32 min_rtt_us;
	__u32 max_rtt_us; /* since the last loss */
	__u32 kept; /* beta of the paper, times ONE */
	__u32 cwnd_before_cut;
};

INTERNAL void begin_round(const struct tcp_sock *tp, struct htcp *state, __u64 now_ns)
{
	state->round_end = tp->snd_nxt;
	state->round_start_ns = now_ns;
	state->delivered_before = tp->delivered;
}

SEC("struct_ops/wl_htcp_init")
void BPF_PROG(wl_htcp_init, struct sock *sk)
{
	struct htcp *state = state_of(sk);
	__u64 now_ns = bpf_ktime_get_ns();

	state->last_loss_ns = now_ns;
	state->min_rtt_us = NO_RTT_YET;
	state->kept = KEPT_MIN;
	begin_round(tcp_of(sk), state, now_ns);
}

SEC("struct_ops/wl_htcp_pkts_acked")
void BPF_PROG(wl_htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *state = state_of(sk);
	__s32 rtt_us = sample->rtt_us;

	if (rtt_us <= 0)
		return;
	state->min_rtt_us = at_most(state->min_rtt_us, rtt_us);
	state->max_rtt_us = at_least(state->max_rtt_us, rtt_us);
}

/*
 * alpha of the paper, times ONE: 1 + 10 d + (d / 2)^2 with d the seconds past the first, and
 * 2 (1 - beta) of that, so that a gentler cut is paid for by slower growth.
 */
INTERNAL __u64 growth(const struct htcp *state, __u64 now_ns)
{
	__u64 since_ms = (now_ns - state->last_loss_ns) / NS_PER_MS;
	__u64 alpha = ONE;

	if (since_ms > RENO_MS) {
		__u64 past_ms = since_ms - RENO_MS;

		if (past_ms > GROWTH_MS_MAX)
			past_ms = GROWTH_MS_MAX;
		alpha += 10 * ONE * past_ms / 1000 + ONE * past_ms * past_ms / 4000000;
	}
	alpha = 2 * (ONE - state->kept) * alpha / ONE;
	return alpha > ONE ? alpha : ONE;
}

SEC("struct_ops/wl_htcp_cong_avoid")
void BPF_PROG(wl_htcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct htcp *state = state_of(sk);
	__u64 now_ns = bpf_ktime_get_ns();

	if (seq_after(ack, state->round_end)) {
		__u64 round_us = (now_ns - state->round_start_ns) / 1000;

		if (round_us > 0)
			state->round_rate =
				(tp->delivered - state->delivered_before) * 1000000ULL / round_us;
		begin_round(tp, state, now_ns);
	}
	grow(tp, at_least(tp->snd_cwnd * ONE / growth(state, now_ns), 1), acked);
}

INTERNAL __u32 share_to_keep(const struct htcp *state)
{
	__u64 change = state->round_rate > state->rate_at_loss ?
			       state->round_rate - state->rate_at_loss :
			       state->rate_at_loss - state->round_rate;

	if (change > state->rate_at_loss / RATE_CHANGE_DIVISOR || state->max_rtt_us == 0)
		return KEPT_MIN;
	return at_most(at_least(state->min_rtt_us * ONE / state->max_rtt_us, KEPT_MIN), KEPT_MAX);
}

SEC("struct_ops/wl_htcp_ssthresh")
__u32 BPF_PROG(wl_htcp_ssthresh, struct sock *sk)
{
	struct htcp *state = state_of(sk);
	__u32 cwnd = tcp_of(sk)->snd_cwnd;

	state->cwnd_before_cut = cwnd;
	state->kept = share_to_keep(state);
	state->rate_at_loss = state->round_rate;
	state->max_rtt_us = 0;
	return at_least((__u64)cwnd * state->kept / ONE, CWND_MIN);
}

/* Time counts from when the window is open again; a round of recovery measures no rate. */
SEC("struct_ops/wl_htcp_set_state")
void BPF_PROG(wl_htcp_set_state, struct sock *sk, __u8 new_state)
{
	struct htcp *state = state_of(sk);
	__u64 now_ns = bpf_ktime_get_ns();

	if (new_state == CA_RECOVERY || new_state == CA_LOSS)
		state->last_loss_ns = now_ns;
	if (new_state == CA_OPEN)
		begin_round(tcp_of(sk), state, now_ns);
}

SEC("struct_ops/wl_htcp_undo_cwnd")
__u32 BPF_PROG(wl_htcp_undo_cwnd, struct sock *sk)
{
	const struct htcp *state = state_of(sk);

	return at_least(tcp_of(sk)->snd_cwnd, state->cwnd_before_cut);
}

SEC(".struct_ops")
struct tcp_congestion_ops wl_htcp = {
	.init = (void *)wl_htcp_init,
	.ssthresh = (void *)wl_htcp_ssthresh,
	.cong_avoid = (void *)wl_htcp_cong_avoid,
	.set_state = (void *)wl_htcp_set_state,
	.pkts_acked = (void *)wl_htcp_pkts_acked,
	.undo_cwnd = (void *)wl_htcp_undo_cwnd,
	.name = "wl_htcp",
};
