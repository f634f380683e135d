/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A receiver that tells of each mark: the state machine of RFC 8257, section 3.2, for controls
 * that need more than RFC 3168 has a receiver say.
 */
#ifndef WL_ECN_ECHO_H
#define WL_ECN_ECHO_H

#include <linux/tcp.h>

#include "tcp.h"

/* Kernel constants that are macros there, and thus in no type information. */
#define SOL_TCP 6
#define TCP_CONG_NEEDS_ECN 0x2
#define TCP_ECN_OK 0x1 /* in ecn_flags: both ends agreed on ECN */
#define TCP_ECN_DEMAND_CWR 0x4 /* in ecn_flags: each ACK we send carries ECE */
#define ICSK_ACK_TIMER 0x2 /* in icsk_ack.pending: an ACK is being delayed */
enum { CA_EVENT_ECN_NO_CE = 4, CA_EVENT_ECN_IS_CE = 5 };

struct ecn_echo {
	__u32 rcv_nxt_before;
	__u32 is_ce;
};

/*
 * Whether the peer takes part. Where it does not, or knows no ECN, the connection is Reno's: under
 * our flag the kernel would go on to call packets ECN-capable, and marks that nobody echoes would
 * replace drops.
 */
INTERNAL bool agreed_on_ecn(struct sock *sk)
{
	char reno[] = "reno";

	if (tcp_of(sk)->ecn_flags & TCP_ECN_OK)
		return true;
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
	return false;
}

INTERNAL void echo(struct tcp_sock *tp, bool is_ce)
{
	__u8 others = tp->ecn_flags & ~TCP_ECN_DEMAND_CWR;

	tp->ecn_flags = is_ce ? others | TCP_ECN_DEMAND_CWR : others;
}

/*
 * An ACK may cover only packets that were alike, so a delayed one leaves, with the old echo,
 * before the first packet that differs is counted.
 */
INTERNAL void echo_each_mark(struct sock *sk, struct ecn_echo *state, __u32 event)
{
	struct tcp_sock *tp = tcp_of(sk);
	bool is_ce = event == CA_EVENT_ECN_IS_CE;

	if (event != CA_EVENT_ECN_IS_CE && event != CA_EVENT_ECN_NO_CE)
		return;
	if (is_ce != state->is_ce) {
		if (((struct inet_connection_sock *)sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, state->is_ce);
			bpf_tcp_send_ack(tp, state->rcv_nxt_before);
		}
		state->is_ce = is_ce;
	}
	state->rcv_nxt_before = tp->rcv_nxt;
	echo(tp, is_ce);
}

#endif
