/* SPDX-License-Identifier: MIT */
/* The L4S router, steering, markers and traces of Wirelens (crates/l4s-abi), for C and C++. Written by
 * hand; crates/l4s-abi/tests/header.rs compares it with the crate. Texts end with a zero byte.
 * Null pointers are answered with zeros. A handle belongs to one thread at a time. */
#ifndef WIRELENS_L4S_H
#define WIRELENS_L4S_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WL_NEVER UINT64_MAX
#define WL_RECORD_LEN 80
#define WL_MAGIC_LEN 8
#define WL_ENTRY_LEN 24

/* ECN fields. */
#define WL_NOT_ECT 0
#define WL_ECT1 1
#define WL_ECT0 2
#define WL_CE 3

/* Queues. */
#define WL_L4S 0
#define WL_CLASSIC 1

/* Outcomes: of an arrival (sent means that it waits), of a packet that leaves, of a record. */
#define WL_SENT 0
#define WL_DROPPED_FULL 1
#define WL_DROPPED_EARLY 2
#define WL_DROPPED_LATE 3
#define WL_WAITING 4

/* Marks. */
#define WL_UNMARKED 0
#define WL_MARKED_PI 1
#define WL_MARKED_THRESHOLD 2

/* Flags of a record. */
#define WL_RETRANSMISSION 1
#define WL_REMARKED 2

typedef struct wl_router wl_router;
typedef struct wl_steering wl_steering;
typedef struct wl_marker wl_marker;

typedef struct {
    uint8_t queue;
    uint8_t outcome;
} wl_enqueue_outcome;

typedef struct {
    uint64_t tag;
    uint64_t entered_ns;
    uint32_t len;
    uint8_t ecn;
    uint8_t queue;
    uint8_t outcome;
    uint8_t mark;
} wl_departure;

/* received = sent + dropped_full + dropped_early + dropped_late + waiting */
typedef struct {
    uint64_t received;
    uint64_t sent;
    uint64_t sent_bytes;
    uint64_t dropped_full;
    uint64_t dropped_early;
    uint64_t dropped_late;
    uint64_t marked_pi;
    uint64_t marked_threshold;
    uint64_t waiting;
} wl_counts;

/* Of each queue, that of L4S first. */
typedef struct {
    uint64_t packets[2];
    uint64_t bytes[2];
    uint64_t delay_ns[2];
    double probability;
} wl_state;

typedef struct {
    uint64_t asked;
    uint64_t remarked;
} wl_steering_counts_of;

/* A packet that leaves its sender: its number, and its ECN field. */
typedef struct {
    uint64_t number;
    uint8_t ecn;
} wl_marking;

/* asked = kept + remarked + rare + silent + unknown + limited */
typedef struct {
    uint64_t asked;
    uint64_t kept;
    uint64_t remarked;
    uint64_t silent;
    uint64_t unknown;
    uint64_t limited;
    uint64_t rare;
} wl_marker_counts_of;

/* A packet's record, as docs/specs/l4s-trace.md says. A time of WL_NEVER is none. */
typedef struct {
    uint64_t sent_ns;
    uint64_t entered_ns;
    uint64_t left_ns;
    uint64_t received_ns;
    uint64_t acked_ns;
    uint64_t sequence;
    uint32_t flow;
    uint32_t size;
    uint32_t found_l4s;
    uint32_t found_classic;
    uint16_t sender;
    uint16_t receiver;
    uint8_t ecn_sent;
    uint8_t ecn_left;
    uint8_t queue;
    uint8_t outcome;
    uint8_t mark;
    uint8_t flags;
} wl_record;

/* Null where the settings cannot be; `error` then says why. */
wl_router *wl_router_new(const char *settings, uint64_t seed, uint64_t start_ns, char *error,
                         size_t error_len);
void wl_router_settings(const wl_router *router, char *to, size_t len);
/* `entry` is null or takes the WL_ENTRY_LEN bytes of the journal. */
wl_enqueue_outcome wl_router_arrive(wl_router *router, uint64_t at_ns, uint32_t len, uint8_t ecn,
                            uint64_t tag, uint8_t *entry);
/* The link is free. False while nothing waits. After a drop the link is still free. */
bool wl_router_leave(wl_router *router, uint64_t now_ns, wl_departure *left, uint8_t *entry);
wl_state wl_router_state(wl_router *router, uint64_t now_ns);
wl_counts wl_router_counts(const wl_router *router, uint8_t queue);
void wl_router_free(wl_router *router);

/* Null where `control` names none; `error` then says why. */
wl_steering *wl_steering_new(const char *control, uint64_t seed, char *error, size_t error_len);
void wl_steering_acknowledge(wl_steering *steering, uint8_t queue, uint64_t latency_ns);
/* The ECN field with which a packet is to leave its sender. `router` may be null. */
uint8_t wl_steering_choose(wl_steering *steering, uint8_t ecn, wl_router *router,
                           uint64_t now_ns);
wl_steering_counts_of wl_steering_counts(const wl_steering *steering);
void wl_steering_free(wl_steering *steering);

/* Chooses by predicted latencies: `control` such as predicted:1ms:0.3, and the bytes of a model's
 * file, which are copied. Null where they cannot be; `error` then says why. */
wl_marker *wl_marker_new(const char *control, const uint8_t *model, size_t model_len, char *error,
                         size_t error_len);
/* Each packet of the sender, in the order in which they leave. */
wl_marking wl_marker_leave(wl_marker *marker, uint64_t at_ns, uint32_t flow, uint32_t receiver,
                          uint32_t size, uint8_t ecn);
/* A latency of WL_NEVER is none, as of a packet that was sent several times. */
void wl_marker_acknowledge(wl_marker *marker, uint64_t number, uint64_t at_ns,
                           uint64_t latency_ns);
wl_marker_counts_of wl_marker_counts(const wl_marker *marker);
void wl_marker_free(wl_marker *marker);

void wl_trace_magic(uint8_t *to);
void wl_trace_encode(const wl_record *record, uint8_t *to);

#ifdef __cplusplus
}
#endif

#endif
