/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * DCTCP, RFC 8257: the window shrinks by the share of packets that met a queue. The queue has to
 * mark them, see ce_mark.bpf.c; both ends have to run this control, since the receiver tells of
 * each mark (section 3.2), which RFC 3168 does not do.
 */
#include "ecn_echo.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* alpha as a fraction of this: fine enough that rounding never matters beside one packet. */
#define ALPHA_ONE (1U << 20)
/* The estimation gain g = 1/16 (section 4.2). */
#define GAIN_SHIFT 4

struct dctcp {
	__u32 alpha;
	__u32 window_end;
	/* Packets delivered, and of those marked, when the window of observation began. */
	__u32 delivered_before;
	__u32 delivered_ce_before;
	__u32 cwnd_before_cut;
	struct ecn_echo receiver;
};

INTERNAL void begin_window(const struct tcp_sock *tp, struct dctcp *state)
{
	state->window_end = tp->snd_nxt;
	state->delivered_before = tp->delivered;
	state->delivered_ce_before = tp->delivered_ce;
}

SEC("struct_ops/wl_dctcp_init")
void BPF_PROG(wl_dctcp_init, struct sock *sk)
{
	struct dctcp *state = state_of(sk);

	if (!agreed_on_ecn(sk))
		return;
	/* The first mark halves the window, as the RFC wants it: caution while nothing is known. */
	state->alpha = ALPHA_ONE;
	state->receiver.rcv_nxt_before = tcp_of(sk)->rcv_nxt;
	begin_window(tcp_of(sk), state);
}

/* Section 3.3, steps 1 to 8: once a window, M is its share of marks, alpha the average of M. */
SEC("struct_ops/wl_dctcp_in_ack_event")
void BPF_PROG(wl_dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct dctcp *state = state_of(sk);
	__u64 delivered = tp->delivered - state->delivered_before;
	__u64 marked = tp->delivered_ce - state->delivered_ce_before;

	if (!seq_after(tp->snd_una, state->window_end))
		return;
	if (delivered > 0) {
		__u32 share = marked * ALPHA_ONE / delivered;

		state->alpha -= state->alpha >> GAIN_SHIFT;
		state->alpha += at_most(share, ALPHA_ONE) >> GAIN_SHIFT;
	}
	begin_window(tp, state);
}

/* Section 3.3, step 9. The kernel asks at the first sign of congestion of each window. */
SEC("struct_ops/wl_dctcp_ssthresh")
__u32 BPF_PROG(wl_dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *state = state_of(sk);
	__u32 cwnd = tcp_of(sk)->snd_cwnd;
	__u32 cut = (__u64)cwnd * state->alpha / (2 * ALPHA_ONE);

	state->cwnd_before_cut = cwnd;
	return at_least(cwnd - cut, CWND_MIN);
}

/* Section 3.5: a loss is answered as ever, by half, also where marks have cut a little already. */
SEC("struct_ops/wl_dctcp_set_state")
void BPF_PROG(wl_dctcp_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct dctcp *state = state_of(sk);

	if (new_state == CA_RECOVERY || new_state == CA_LOSS) {
		__u32 half = at_least(state->cwnd_before_cut / 2, CWND_MIN);

		tp->snd_ssthresh = at_most(tp->snd_ssthresh, half);
	}
}

SEC("struct_ops/wl_dctcp_cwnd_event")
void BPF_PROG(wl_dctcp_cwnd_event, struct sock *sk, __u32 event)
{
	struct dctcp *state = state_of(sk);

	echo_each_mark(sk, &state->receiver, event);
}

SEC("struct_ops/wl_dctcp_cong_avoid")
void BPF_PROG(wl_dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	grow(tcp_of(sk), tcp_of(sk)->snd_cwnd, acked);
}

SEC("struct_ops/wl_dctcp_undo_cwnd")
__u32 BPF_PROG(wl_dctcp_undo_cwnd, struct sock *sk)
{
	const struct dctcp *state = state_of(sk);

	return at_least(tcp_of(sk)->snd_cwnd, state->cwnd_before_cut);
}

SEC(".struct_ops")
struct tcp_congestion_ops wl_dctcp = {
	.init = (void *)wl_dctcp_init,
	.ssthresh = (void *)wl_dctcp_ssthresh,
	.cong_avoid = (void *)wl_dctcp_cong_avoid,
	.set_state = (void *)wl_dctcp_set_state,
	.cwnd_event = (void *)wl_dctcp_cwnd_event,
	.in_ack_event = (void *)wl_dctcp_in_ack_event,
	.undo_cwnd = (void *)wl_dctcp_undo_cwnd,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "wl_dctcp",
};
