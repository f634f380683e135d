/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the congestion controls here see of the kernel's TCP, and no more. Field offsets are
 * those of the running kernel, put in at load (CO-RE), so one object serves many kernels; a
 * field that a kernel lacks makes the load fail, it is never read from a wrong place.
 */
#ifndef WL_TCP_H
#define WL_TCP_H

#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define KERNEL_LAYOUT __attribute__((preserve_access_index))

struct sock {
	__u64 sk_pacing_rate; /* bytes a second */
	__u32 sk_pacing_status;
} KERNEL_LAYOUT;

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
} KERNEL_LAYOUT;

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 max_packets_out;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 prr_out;
	__u32 srtt_us; /* eight times the smoothed round trip */
	__u64 tcp_mstamp; /* of the packet at hand, in µs */
	__u32 mss_cache;
	__u8 is_cwnd_limited : 1;
	__u8 ecn_flags;
} KERNEL_LAYOUT;

struct ack_sample {
	__s32 rtt_us; /* -1 where an acknowledgement tells nothing, as after a retransmission */
} KERNEL_LAYOUT;

struct rate_sample;

/* The loader matches members by name, so those we leave out stay empty. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *sample);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, __u32 event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	__u32 flags;
	char name[16];
};

/* Of enum tcp_ca_state, which user space sees in TCP_INFO and which therefore stays. */
enum { CA_OPEN = 0, CA_CWR = 2, CA_RECOVERY = 3, CA_LOSS = 4 };

#define CWND_MIN 2U
#define NO_RTT_YET 0x7fffffffU
#define SSTHRESH_MAX 0x7fffffffU /* the kernel's TCP_INFINITE_SSTHRESH */

/* Kernel functions: slow start, and one packet more for each `per` acknowledged. */
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 per, __u32 acked) __ksym;

#define INTERNAL static __attribute__((always_inline)) inline

INTERNAL struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* The 104 bytes of a connection that are its congestion control's own; all 0 at `init`. */
INTERNAL void *state_of(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

INTERNAL bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/*
 * Whether the window is what holds the sender back. One that sends little has proved nothing
 * about the path, so its window may not grow (RFC 7661); in slow start half of it in use is proof.
 */
INTERNAL bool is_cwnd_limited(const struct tcp_sock *tp)
{
	if (in_slow_start(tp))
		return tp->snd_cwnd < 2 * tp->max_packets_out;
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

/* Sequence numbers wrap: RFC 9293, section 3.4. */
INTERNAL bool seq_after(__u32 a, __u32 b)
{
	return (__s32)(b - a) < 0;
}

INTERNAL __u32 at_least(__u32 value, __u32 minimum)
{
	return value > minimum ? value : minimum;
}

INTERNAL __u32 at_most(__u32 value, __u32 maximum)
{
	return value < maximum ? value : maximum;
}

/* Slow start where it is due, and past it one packet more for each `per` acknowledged. */
INTERNAL void grow(struct tcp_sock *tp, __u32 per, __u32 acked)
{
	if (!is_cwnd_limited(tp))
		return;
	if (in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked > 0)
		tcp_cong_avoid_ai(tp, per, acked);
}

#endif
