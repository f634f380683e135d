/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A Prague-like control, after draft-briscoe-iccrg-prague-congestion-control-04: DCTCP that grows
 * also while marks are reported, by packets that were not marked, in parts of a packet, as if no
 * round trip were shorter than 25 ms, and that sends its window evenly. Marks are heard of one by
 * one only if the other end runs it as well (ecn_echo.h), since this kernel negotiates no AccECN;
 * packets leave as ECT(0), see ect1.bpf.c.
 *
 * It does not look for classic queues that mark, and takes up the longer round trip at the end of
 * slow start instead of 500 round trips later.
 */
#include "ecn_echo.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A packet, and a share of 1, as fixed point: rounding never matters beside one packet. */
#define ONE_SHIFT 20
#define ONE (1ULL << ONE_SHIFT)
/* The estimation gain g = 1/16. alpha is kept 16 times as large, so that no rest is lost. */
#define GAIN_SHIFT 4
/* No round trip counts as shorter. */
#define RTT_VIRTUAL_MIN_US 25000U
#define SECOND_US 1000000ULL
/* In sk_pacing_status: the kernel's TCP paces by a timer of its own. */
#define SK_PACING_NEEDED 1

struct prague {
	__u64 window; /* in packets, while no loss is being recovered from */
	__u64 reduced_us;
	__u64 updated_us;
	__u32 alpha;
	__u32 window_end;
	/* Packets delivered, and of those marked, when the window of observation began. */
	__u32 delivered_before;
	__u32 delivered_ce_before;
	/* And at the last acknowledgement. */
	__u32 delivered_seen;
	__u32 delivered_ce_seen;
	__u32 delivered_at_loss;
	__u32 cwnd_before_cut;
	struct ecn_echo receiver;
};

INTERNAL __u32 packets(const struct prague *state)
{
	return at_least(state->window >> ONE_SHIFT, CWND_MIN);
}

/* The kernel shortens windows, too: after silence, after a timeout. It never lengthens one of ours. */
INTERNAL void follow_kernel(const struct tcp_sock *tp, struct prague *state)
{
	if (tp->snd_cwnd < packets(state))
		state->window = (__u64)tp->snd_cwnd << ONE_SHIFT;
}

INTERNAL __u32 rtt_us(const struct tcp_sock *tp)
{
	return tp->srtt_us >> 3;
}

/* Whether a round trip has passed since an instant that is as long as one counts at least. */
INTERNAL bool virtual_rtt_passed(const struct tcp_sock *tp, __u64 since_us)
{
	if (in_slow_start(tp) || rtt_us(tp) >= RTT_VIRTUAL_MIN_US)
		return true;
	return tp->tcp_mstamp - since_us >= RTT_VIRTUAL_MIN_US;
}

INTERNAL void begin_window(const struct tcp_sock *tp, struct prague *state)
{
	state->window_end = tp->snd_nxt;
	state->delivered_before = tp->delivered;
	state->delivered_ce_before = tp->delivered_ce;
	state->updated_us = tp->tcp_mstamp;
}

SEC("struct_ops/wl_prague_init")
void BPF_PROG(wl_prague_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct prague *state = state_of(sk);

	if (!agreed_on_ecn(sk))
		return;
	/* The first mark halves the window: caution while nothing is known. */
	state->alpha = ONE << GAIN_SHIFT;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	state->window = (__u64)tp->snd_cwnd << ONE_SHIFT;
	state->delivered_seen = tp->delivered;
	state->delivered_ce_seen = tp->delivered_ce;
	state->receiver.rcv_nxt_before = tp->rcv_nxt;
	begin_window(tp, state);
}

/* Once a round trip alpha moves to the share of marked packets; not before the first mark. */
SEC("struct_ops/wl_prague_in_ack_event")
void BPF_PROG(wl_prague_in_ack_event, struct sock *sk, __u32 flags)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct prague *state = state_of(sk);
	__u64 delivered = tp->delivered - state->delivered_before;
	__u64 marked = tp->delivered_ce - state->delivered_ce_before;

	if (!seq_after(tp->snd_una, state->window_end) || !virtual_rtt_passed(tp, state->updated_us))
		return;
	if (delivered > 0 && tp->delivered_ce > 0) {
		__u32 share = marked * ONE / delivered;

		state->alpha -= state->alpha >> GAIN_SHIFT;
		state->alpha += at_most(share, ONE);
	}
	begin_window(tp, state);
}

/* Marks take half of alpha of the window, once a virtual round trip. */
INTERNAL __u32 reduce(const struct tcp_sock *tp, struct prague *state)
{
	state->cwnd_before_cut = packets(state);
	if (virtual_rtt_passed(tp, state->reduced_us)) {
		__u64 alpha = state->alpha >> GAIN_SHIFT;

		state->window -= (state->window >> 1) * alpha >> ONE_SHIFT;
		state->reduced_us = tp->tcp_mstamp;
	}
	return packets(state);
}

/*
 * The kernel asks at the first mark of each round trip, and at a loss; what a loss takes besides is
 * in set_state.
 */
SEC("struct_ops/wl_prague_ssthresh")
__u32 BPF_PROG(wl_prague_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct prague *state = state_of(sk);

	follow_kernel(tp, state);
	return reduce(tp, state);
}

/*
 * On a busy machine Linux 6.18 takes, once in a while, a threshold that the program
 * has not returned: an address of the kernel's, and thus none that could be. Why is not known. It
 * is noticed, and made up for, at the same acknowledgement.
 */
INTERNAL void make_up(struct tcp_sock *tp, struct prague *state)
{
	if (tp->snd_ssthresh <= SSTHRESH_MAX)
		return;
	tp->snd_ssthresh = SSTHRESH_MAX;
	tp->snd_ssthresh = reduce(tp, state);
}

SEC("struct_ops/wl_prague_set_state")
void BPF_PROG(wl_prague_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct prague *state = state_of(sk);
	__u8 old_state =
		BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);

	if (new_state == CA_RECOVERY || new_state == CA_LOSS) {
		__u32 half = at_least(state->cwnd_before_cut / 2, CWND_MIN);

		tp->snd_ssthresh = at_most(tp->snd_ssthresh, half);
		state->window = (__u64)half << ONE_SHIFT;
		state->delivered_at_loss = tp->delivered;
	} else if (new_state == CA_CWR || old_state == CA_RECOVERY) {
		tp->snd_cwnd = packets(state);
	}
}

/* RFC 6937: while losses are repaired, what is sent follows what is delivered, down to half. */
INTERNAL void reduce_in_proportion(struct tcp_sock *tp, const struct prague *state, __u32 acked)
{
	__u32 in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	__u32 delivered = tp->delivered - state->delivered_at_loss;
	__u32 before = at_least(state->cwnd_before_cut, 1);
	__u32 target = packets(state);
	__s32 sent = tp->prr_out, may_send;

	if (in_flight > target) {
		may_send = (__s32)(((__u64)delivered * target + before - 1) / before) - sent;
	} else {
		may_send = (__s32)delivered - sent;
		if (may_send < (__s32)acked)
			may_send = acked;
		may_send = at_most(may_send + 1, target - in_flight);
	}
	/* The first packet that was lost is retransmitted immediately. */
	if (may_send < (sent ? 0 : 1))
		may_send = sent ? 0 : 1;
	tp->snd_cwnd = in_flight + may_send;
}

/*
 * Whether the window may grow: at least half of it was in use (RFC 7661, section 4.3). Packets that
 * are paced do not reach the end of their window in each round trip, so that alone says nothing.
 */
INTERNAL bool is_validated(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * One packet a round trip for packets that were not marked, whether or not others were: over a
 * queue that marks by chance hardly a round trip is without. Where round trips are short it is
 * the square of their share of the virtual one: as many packets a second as there.
 */
INTERNAL void grow_unmarked(struct tcp_sock *tp, struct prague *state, __u32 acked)
{
	__u64 rtt = at_least(rtt_us(tp), 1), gain;

	follow_kernel(tp, state);
	tp->snd_cwnd = packets(state);
	if (acked == 0 || !is_validated(tp))
		return;
	if (in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		state->window = (__u64)tp->snd_cwnd << ONE_SHIFT;
	}
	gain = (__u64)acked << ONE_SHIFT;
	if (rtt < RTT_VIRTUAL_MIN_US)
		gain = gain * rtt / RTT_VIRTUAL_MIN_US * rtt / RTT_VIRTUAL_MIN_US;
	state->window += gain / at_least(tp->snd_cwnd, 1);
	tp->snd_cwnd = at_most(packets(state), tp->snd_cwnd_clamp);
}

/* The window in each round trip, evenly; in slow start two packets follow each that arrived. */
INTERNAL void pace(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	__u64 rate = (__u64)tp->snd_cwnd * tp->mss_cache * SECOND_US;

	if (tp->srtt_us == 0)
		return;
	rate /= at_least(rtt_us(tp), 1);
	sk->sk_pacing_rate = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 2 * rate : rate;
}

/* What leaves at once is a burst in the queue: one packet where the rate makes it no more. */
SEC("struct_ops/wl_prague_min_tso_segs")
__u32 BPF_PROG(wl_prague_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC("struct_ops/wl_prague_cong_control")
void BPF_PROG(wl_prague_cong_control, struct sock *sk, __u32 ack, int flag,
	      const struct rate_sample *sample)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct prague *state = state_of(sk);
	__u32 acked = tp->delivered - state->delivered_seen;
	__u32 marked = tp->delivered_ce - state->delivered_ce_seen;

	state->delivered_seen = tp->delivered;
	state->delivered_ce_seen = tp->delivered_ce;
	make_up(tp, state);
	if (BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state) ==
	    CA_RECOVERY)
		reduce_in_proportion(tp, state, acked);
	else
		grow_unmarked(tp, state, acked - at_most(marked, acked));
	pace(sk);
}

SEC("struct_ops/wl_prague_cwnd_event")
void BPF_PROG(wl_prague_cwnd_event, struct sock *sk, __u32 event)
{
	struct prague *state = state_of(sk);

	echo_each_mark(sk, &state->receiver, event);
}

SEC("struct_ops/wl_prague_undo_cwnd")
__u32 BPF_PROG(wl_prague_undo_cwnd, struct sock *sk)
{
	struct prague *state = state_of(sk);
	__u32 cwnd = at_least(tcp_of(sk)->snd_cwnd, state->cwnd_before_cut);

	state->window = (__u64)cwnd << ONE_SHIFT;
	return cwnd;
}

SEC(".struct_ops")
struct tcp_congestion_ops wl_prague = {
	.init = (void *)wl_prague_init,
	.ssthresh = (void *)wl_prague_ssthresh,
	.cong_control = (void *)wl_prague_cong_control,
	.set_state = (void *)wl_prague_set_state,
	.cwnd_event = (void *)wl_prague_cwnd_event,
	.in_ack_event = (void *)wl_prague_in_ack_event,
	.undo_cwnd = (void *)wl_prague_undo_cwnd,
	.min_tso_segs = (void *)wl_prague_min_tso_segs,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "wl_prague",
};
