/* Sends datagrams of many flows faster than a socket can: a frame is run through a program at XDP,
 * which gives it a source port and has the interface transmit it (`BPF_PROG_RUN` with live frames,
 * Linux 5.18).
 *
 *     storm INTERFACE FRAME_BYTES PACKETS_PER_SECOND SECONDS FLOWS
 *
 * A veth whose other end has GRO on hands frames to a thread of the kernel's, so that a receiver
 * which is too slow loses them: without that, sending takes the time of receiving. What was sent is
 * not what arrived; the other end counts that. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define HEADERS 42
#define SOURCE_PORT_AT 34
#define BATCH 64
#define SECOND_NS 1000000000
/* Who is so far behind the schedule does not catch up. */
#define BEHIND_MAX_NS 1000000

/* Shared with the program. */
struct schedule {
    uint64_t next_ns, interval_ns, sent;
};

#define INSN(op, dst, src, off_, imm_)                                                            \
    ((struct bpf_insn){                                                                           \
        .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (off_), .imm = (imm_)})
#define LOAD(size, dst, src, off) INSN(BPF_LDX | BPF_MEM | (size), dst, src, off, 0)
#define STORE(size, dst, src, off) INSN(BPF_STX | BPF_MEM | (size), dst, src, off, 0)
#define MOVE(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, imm) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define WITH(op, dst, src) INSN(BPF_ALU64 | (op) | BPF_X, dst, src, 0, 0)
#define BY(op, dst, imm) INSN(BPF_ALU64 | (op) | BPF_K, dst, 0, 0, imm)
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

static int bpf(int command, union bpf_attr *attr) {
    return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static void fail(const char *what) {
    fprintf(stderr, "storm: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int make_map(void) {
    union bpf_attr attr = {
        .map_type = BPF_MAP_TYPE_ARRAY,
        .key_size = 4,
        .value_size = sizeof(struct schedule),
        .max_entries = 1,
    };
    int map = bpf(BPF_MAP_CREATE, &attr);
    if (map < 0) fail("BPF_MAP_CREATE");
    return map;
}

static void with_schedule(int command, int map, struct schedule *schedule) {
    uint32_t key = 0;
    union bpf_attr attr = {
        .map_fd = (uint32_t)map,
        .key = (uintptr_t)&key,
        .value = (uintptr_t)schedule,
    };
    if (bpf(command, &attr) < 0) fail("the schedule");
}

/* Each run is a look at the clock: a frame that is not due is dropped before it was sent. Source
 * ports are those of `flows`, a power of two, in no order. */
static int load(int map, uint32_t flows) {
    struct bpf_insn program[] = {
        MOVE(6, 1),
        CALL(BPF_FUNC_ktime_get_ns),
        MOVE(7, 0),
        INSN(BPF_LD | BPF_IMM | BPF_DW, 8, BPF_PSEUDO_MAP_VALUE, 0, map),
        INSN(0, 0, 0, 0, 0),
        LOAD(BPF_DW, 1, 8, offsetof(struct schedule, next_ns)),
        INSN(BPF_JMP | BPF_JGT | BPF_X, 1, 7, 21, 0),
        MOVE(2, 7),
        BY(BPF_SUB, 2, BEHIND_MAX_NS),
        INSN(BPF_JMP | BPF_JGE | BPF_X, 1, 2, 1, 0),
        MOVE(1, 2),
        LOAD(BPF_DW, 2, 8, offsetof(struct schedule, interval_ns)),
        WITH(BPF_ADD, 1, 2),
        STORE(BPF_DW, 8, 1, offsetof(struct schedule, next_ns)),
        LOAD(BPF_DW, 1, 8, offsetof(struct schedule, sent)),
        BY(BPF_ADD, 1, 1),
        STORE(BPF_DW, 8, 1, offsetof(struct schedule, sent)),
        CALL(BPF_FUNC_get_prandom_u32),
        BY(BPF_AND, 0, (int)(flows - 1)),
        BY(BPF_ADD, 0, 1024),
        INSN(BPF_ALU | BPF_END | BPF_TO_BE, 0, 0, 0, 16),
        LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, data)),
        LOAD(BPF_W, 3, 6, offsetof(struct xdp_md, data_end)),
        MOVE(4, 2),
        BY(BPF_ADD, 4, HEADERS),
        INSN(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 2, 0),
        STORE(BPF_H, 2, 0, SOURCE_PORT_AT),
        INSN(BPF_JMP | BPF_JA, 0, 0, 2, 0),
        SET(0, XDP_DROP),
        EXIT,
        SET(0, XDP_TX),
        EXIT,
    };
    static char log[65536];
    union bpf_attr attr = {
        .prog_type = BPF_PROG_TYPE_XDP,
        .insns = (uintptr_t)program,
        .insn_cnt = sizeof(program) / sizeof(*program),
        .license = (uintptr_t) "GPL",
        .log_buf = (uintptr_t)log,
        .log_size = sizeof(log),
        .log_level = 1,
    };
    int fd = bpf(BPF_PROG_LOAD, &attr);
    if (fd < 0) {
        fputs(log, stderr);
        fail("BPF_PROG_LOAD");
    }
    return fd;
}

static void make_frame(unsigned char *frame, uint32_t len) {
    static const unsigned char head[HEADERS] = {
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1,
        0, 0, 0, 53, 0, 0, 0, 0,
    };
    memset(frame, 0x5a, len);
    memcpy(frame, head, HEADERS);
    uint16_t ip_len = htons(len - 14), udp_len = htons(len - 34);
    memcpy(frame + 16, &ip_len, 2);
    memcpy(frame + 38, &udp_len, 2);
    uint32_t sum = 0;
    for (int at = 14; at < 34; at += 2) sum += (uint32_t)frame[at] << 8 | frame[at + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    uint16_t check = htons(~((sum & 0xffff) + (sum >> 16)));
    memcpy(frame + 24, &check, 2);
}

static void stop(int signal) {
    (void)signal;
}

int main(int count, char **words) {
    if (count != 6) {
        fputs("wanted: storm INTERFACE FRAME_BYTES PACKETS_PER_SECOND SECONDS FLOWS\n", stderr);
        return 2;
    }
    uint32_t index = if_nametoindex(words[1]);
    if (index == 0) fail(words[1]);
    uint32_t len = (uint32_t)atoi(words[2]), flows = (uint32_t)atoi(words[5]);
    double rate = atof(words[3]), seconds = atof(words[4]);
    static unsigned char frame[2048];
    if (len < HEADERS || len > sizeof(frame) || flows == 0 || (flows & (flows - 1)) || rate < 1) {
        fputs("storm: wanted 42 to 2048 bytes, a rate, flows that are a power of two\n", stderr);
        return 2;
    }
    make_frame(frame, len);
    int map = make_map(), program = load(map, flows);
    struct schedule schedule = {.interval_ns = (uint64_t)(SECOND_NS / rate)};
    with_schedule(BPF_MAP_UPDATE_ELEM, map, &schedule);
    struct xdp_md context = {.data_end = len, .ingress_ifindex = index};
    union bpf_attr attr = {.test = {
        .prog_fd = (uint32_t)program,
        .data_in = (uintptr_t)frame,
        .data_size_in = len,
        .ctx_in = (uintptr_t)&context,
        .ctx_size_in = sizeof(context),
        .repeat = UINT32_MAX,
        .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
        .batch_size = BATCH,
    }};
    /* A signal ends the call. */
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {.it_value = {
        .tv_sec = (time_t)seconds,
        .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6),
    }};
    setitimer(ITIMER_REAL, &timer, NULL);
    if (bpf(BPF_PROG_RUN, &attr) < 0 && errno != EINTR) fail("BPF_PROG_RUN");
    with_schedule(BPF_MAP_LOOKUP_ELEM, map, &schedule);
    printf("%llu packets sent, %.0f a second; %llu bytes\n", (unsigned long long)schedule.sent,
           (double)schedule.sent / seconds, (unsigned long long)(schedule.sent * len));
    return 0;
}
