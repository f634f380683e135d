// Reads what comes in on an interface and does nothing with it, through an AF_XDP socket or through
// an AF_PACKET ring: `xsk INTERFACE xdp|xdp-naps|xdp-skb|ring RING_KIB [BYTES]`, until it is
// interrupted. One rx queue. With BYTES a program truncates frames before either has them.
//
// Both look at the first bytes of each frame, wait in poll() and have the same memory. What it
// counted is printed at the end. bench/speed/packetlog/xsk.py builds and runs it.

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <arpa/inet.h>

enum { FRAME_SIZE = 2048, BLOCK_SIZE = 1 << 17 };

static volatile sig_atomic_t is_over;

static void end(int number) { is_over = number; }

static void die(const char *what) {
    fprintf(stderr, "xsk: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int checked(int result, const char *what) {
    if (result < 0) die(what);
    return result;
}

static void *mapped(size_t len, int fd, off_t offset) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, offset);
    if (at == MAP_FAILED) die("mmap");
    return at;
}

static int bpf(enum bpf_cmd command, union bpf_attr *attr) {
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static uint32_t kept; // Bytes of a frame; 0 for all.

// Truncates frames; then those of queue 0 go to the socket, if there is one, others up the stack.
static void attach(int interface, int map_fd, unsigned mode) {
    struct bpf_insn truncate[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 6, .src_reg = 1},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 6,
         .off = offsetof(struct xdp_md, data_end)},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 4, .src_reg = 6,
         .off = offsetof(struct xdp_md, data)},
        {.code = BPF_ALU64 | BPF_SUB | BPF_X, .dst_reg = 3, .src_reg = 4},
        {.code = BPF_JMP | BPF_JLE | BPF_K, .dst_reg = 3, .imm = (int32_t)kept, .off = 4},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = (int32_t)kept},
        {.code = BPF_ALU64 | BPF_SUB | BPF_X, .dst_reg = 2, .src_reg = 3},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 1, .src_reg = 6},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_xdp_adjust_tail},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 1, .src_reg = 6},
    };
    struct bpf_insn redirect[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1,
         .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD,
         .imm = map_fd},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    struct bpf_insn pass[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
    };
    struct bpf_insn program[sizeof truncate / sizeof *truncate + sizeof redirect / sizeof *redirect];
    uint32_t count = 0;
    if (kept) {
        memcpy(program, truncate, sizeof truncate);
        count = sizeof truncate / sizeof *truncate;
    }
    if (map_fd >= 0) {
        memcpy(program + count, redirect, sizeof redirect);
        count += sizeof redirect / sizeof *redirect;
    } else {
        memcpy(program + count, pass, sizeof pass);
        count += sizeof pass / sizeof *pass;
    }
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)program,
                           .insn_cnt = count, .license = (uintptr_t) "GPL",
                           .expected_attach_type = BPF_XDP};
    int program_fd = checked(bpf(BPF_PROG_LOAD, &load), "the program");
    union bpf_attr link = {.link_create = {.prog_fd = (uint32_t)program_fd,
                                           .target_ifindex = (uint32_t)interface,
                                           .attach_type = BPF_XDP, .flags = mode}};
    checked(bpf(BPF_LINK_CREATE, &link), "the program on the interface");
}

static int map_of(int socket) {
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4,
                          .max_entries = 1};
    int map_fd = checked(bpf(BPF_MAP_CREATE, &map), "a map of sockets");
    uint32_t key = 0, value = (uint32_t)socket;
    union bpf_attr put = {.map_fd = (uint32_t)map_fd, .key = (uintptr_t)&key,
                          .value = (uintptr_t)&value};
    checked(bpf(BPF_MAP_UPDATE_ELEM, &put), "the socket into its map");
    return map_fd;
}

struct ring {
    uint32_t *producer, *consumer, mask;
    void *slots;
};

static struct ring ring_of(int fd, const struct xdp_ring_offset *at, size_t slot_size,
                           uint32_t count, off_t offset) {
    uint8_t *base = mapped(at->desc + count * slot_size, fd, offset);
    return (struct ring){(uint32_t *)(base + at->producer), (uint32_t *)(base + at->consumer),
                         count - 1, base + at->desc};
}

static uint64_t sum; // So that reading is not left out.

static void told(const char *how, uint64_t packets, uint64_t dropped) {
    printf("%s: %llu packets, %llu dropped; %llx\n", how, (unsigned long long)packets,
           (unsigned long long)dropped, (unsigned long long)sum);
}

static void listening(const char *name) {
    fprintf(stderr, "listening on %s\n", name);
}

static void read_xdp(const char *name, int interface, size_t size, const char *how) {
    bool naps = strcmp(how, "xdp-naps") == 0;
    unsigned mode = strcmp(how, "xdp-skb") == 0 ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
    int fd = checked(socket(AF_XDP, SOCK_RAW, 0), "AF_XDP");
    uint32_t count = (uint32_t)(size / FRAME_SIZE);
    uint8_t *memory = mapped(size, -1, 0);
    struct xdp_umem_reg umem = {.addr = (uintptr_t)memory, .len = size, .chunk_size = FRAME_SIZE};
    checked(setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem), "the frames");
    const int rings[] = {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING};
    for (int at = 0; at < 3; at++)
        checked(setsockopt(fd, SOL_XDP, rings[at], &count, sizeof count), "a ring");
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof at;
    checked(getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len), "where rings lie");
    struct ring fill = ring_of(fd, &at.fr, 8, count, (off_t)XDP_UMEM_PGOFF_FILL_RING);
    struct ring received =
        ring_of(fd, &at.rx, sizeof(struct xdp_desc), count, XDP_PGOFF_RX_RING);
    for (uint32_t frame = 0; frame < count; frame++)
        ((uint64_t *)fill.slots)[frame] = (uint64_t)frame * FRAME_SIZE;
    __atomic_store_n(fill.producer, count, __ATOMIC_RELEASE);
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = (uint32_t)interface,
                                   .sxdp_flags = XDP_COPY};
    checked(bind(fd, (struct sockaddr *)&address, sizeof address), "the socket to its queue");
    attach(interface, map_of(fd), mode);
    listening(name);
    uint64_t packets = 0;
    uint32_t next = 0, filled = count;
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    while (!is_over) {
        uint32_t there = __atomic_load_n(received.producer, __ATOMIC_ACQUIRE);
        if (there == next) {
            if (naps) usleep(1000);
            else poll(&waits, 1, 1000);
            continue;
        }
        for (; next != there; next++) {
            struct xdp_desc *slot = (struct xdp_desc *)received.slots + (next & received.mask);
            sum += *(uint64_t *)(memory + slot->addr) + slot->len;
            ((uint64_t *)fill.slots)[filled++ & fill.mask] = slot->addr & ~(FRAME_SIZE - 1ull);
            packets++;
        }
        __atomic_store_n(received.consumer, next, __ATOMIC_RELEASE);
        __atomic_store_n(fill.producer, filled, __ATOMIC_RELEASE);
    }
    struct xdp_statistics lost = {0};
    len = sizeof lost;
    checked(getsockopt(fd, SOL_XDP, XDP_STATISTICS, &lost, &len), "statistics");
    // Frames that found the fill ring empty are counted as dropped as well.
    told(how, packets, lost.rx_dropped + lost.rx_ring_full);
}

static void read_ring(const char *name, int interface, size_t size) {
    int fd = checked(socket(AF_PACKET, SOCK_RAW, 0), "AF_PACKET");
    int version = TPACKET_V3;
    checked(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version), "version 3");
    uint32_t count = (uint32_t)(size / BLOCK_SIZE);
    struct tpacket_req3 asked = {.tp_block_size = BLOCK_SIZE, .tp_block_nr = count,
                                 .tp_frame_size = FRAME_SIZE,
                                 .tp_frame_nr = count * (BLOCK_SIZE / FRAME_SIZE),
                                 .tp_retire_blk_tov = 8};
    checked(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &asked, sizeof asked), "the ring");
    uint8_t *memory = mapped(size, fd, 0);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = interface};
    checked(bind(fd, (struct sockaddr *)&address, sizeof address), "the socket to its interface");
    if (kept) attach(interface, -1, XDP_FLAGS_DRV_MODE);
    listening(name);
    uint64_t packets = 0;
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    for (uint32_t block = 0; !is_over;) {
        struct tpacket_block_desc *head = (void *)(memory + (size_t)block * BLOCK_SIZE);
        struct tpacket_hdr_v1 *told_of = &head->hdr.bh1;
        if (!(__atomic_load_n(&told_of->block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
            poll(&waits, 1, 1000);
            continue;
        }
        uint8_t *at = (uint8_t *)head + told_of->offset_to_first_pkt;
        for (uint32_t left = told_of->num_pkts; left > 0; left--) {
            struct tpacket3_hdr *frame = (void *)at;
            sum += *(uint64_t *)(at + frame->tp_mac) + frame->tp_len;
            at += frame->tp_next_offset;
            packets++;
        }
        __atomic_store_n(&told_of->block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        block = (block + 1) % count;
    }
    struct tpacket_stats_v3 lost;
    socklen_t len = sizeof lost;
    checked(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &lost, &len), "statistics");
    told("ring", packets, lost.tp_drops);
}

int main(int count, char **words) {
    if (count != 4 && count != 5) {
        fprintf(stderr, "xsk: give INTERFACE xdp|xdp-naps|xdp-skb|ring RING_KIB [BYTES]\n");
        return 2;
    }
    if (count == 5) kept = (uint32_t)atol(words[4]);
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGINT, &action, NULL);
    int interface = (int)if_nametoindex(words[1]);
    if (interface == 0) die(words[1]);
    size_t size = (size_t)atol(words[3]) << 10;
    if (strcmp(words[2], "ring") == 0) read_ring(words[1], interface, size);
    else read_xdp(words[1], interface, size, words[2]);
    return 0;
}
