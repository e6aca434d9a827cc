// What a switch's egress port and a damaged line do to packets, as two programs for tc (clsact).
//   queue: egress, before the shaper. Marks, trims, drops, and picks the class.
//   wire: ingress of the far end. Loss and corruption of a line; attached only while something is wrong.
// Decides the fate of a packet. Leaves rates, classes and thresholds to ports.py, faults to ends.py.
//
// The queue is a virtual one: a single word says when the line will have sent everything that was admitted.
// It is drained at the rate of the shaper behind it and has its burst, so both hold the same bytes, and one
// compare-and-swap keeps it right on several processors. Thresholds are times on that line.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

static void* (*const map_lookup)(void* map, const void* key) = (void*)BPF_FUNC_map_lookup_elem;
static __u64 (*const now_ns)(void) = (void*)BPF_FUNC_ktime_get_ns;
static __u32 (*const random32)(void) = (void*)BPF_FUNC_get_prandom_u32;
static long (*const load)(const void* skb, __u32 at, void* to, __u32 n) = (void*)BPF_FUNC_skb_load_bytes;
static long (*const store)(void* skb, __u32 at, const void* from, __u32 n,
                           __u64 flags) = (void*)BPF_FUNC_skb_store_bytes;
static long (*const change_tail)(void* skb, __u32 n, __u64 flags) = (void*)BPF_FUNC_skb_change_tail;

/* The loader (bpf_object.py) makes an array map of one element for each of these. */
struct map_of_one {
  __u32 value_bytes;
};

/* Written by ports.py and ends.py; the loader compares sizes. */
struct queue_settings {
  __u64 ps_per_byte;      /* of the line; 0: as fast as the machine, nothing is queued */
  __u64 ecn_min, ecn_max; /* marking begins, every packet is marked; ns of line time; 0: never */
  __u64 trim;             /* ns queued above which packets are trimmed; 0: never */
  __u64 drop;             /* ns queued above which packets are dropped; 0: never */
  __u64 high, trimmable;  /* DSCPs, a bit each: sent first; may be trimmed */
  __u64 trimmed_dscp;     /* what a trimmed packet gets */
  __u64 burst;            /* ns that the shaper lets through at once after a pause */
};
struct queue_state {
  __u64 busy_until;
  __u64 seen, bytes, high, marked, trimmed, dropped, trim_failed, bursts;
};
struct wire_settings {
  __u64 loss, corrupt; /* parts of 2^32 */
};
struct wire_state {
  __u64 seen, lost, corrupted;
};

struct map_of_one SECTION("maps") queue_set = {sizeof(struct queue_settings)};
struct map_of_one SECTION("maps") queue_now = {sizeof(struct queue_state)};
struct map_of_one SECTION("maps") wire_set = {sizeof(struct wire_settings)};
struct map_of_one SECTION("maps") wire_now = {sizeof(struct wire_state)};

#define ETHER 14
#define IP6 40
#define CLASS_HIGH 0x00010010 /* 1:10 and 1:20 of the shaper */
#define CLASS_DATA 0x00010020
#define COUNT(field) __sync_fetch_and_add(&q->field, 1)

INLINE __u16 swap16(__u16 v) { return __builtin_bswap16(v); }

/* Traffic class of the IPv6 header at `at` = (old & ~mask) | bits. It has no checksum over it. */
INLINE int set_class(struct __sk_buff* skb, __u32 at, __u8 mask, __u8 bits) {
  __u8 b[2];
  if (load(skb, at, b, 2)) return -1;
  __u8 tc = (__u8)(b[0] << 4 | b[1] >> 4);
  tc = (tc & ~mask) | bits;
  b[0] = (b[0] & 0xf0) | tc >> 4;
  b[1] = (b[1] & 0x0f) | (__u8)(tc << 4);
  return (int)store(skb, at, b, 2, 0);
}

struct layers {
  __u32 inner; /* of the inner IPv6 header in a packed packet; 0: not packed */
  __u32 udp;   /* 0: no UDP */
};

/* Finds UDP behind IPv6, behind IPv6 in IPv6, and behind a segment routing header with IPv6 in it. */
INLINE struct layers find(struct __sk_buff* skb, __u8 next) {
  struct layers found = {0, 0};
  __u32 at = ETHER + IP6;
  if (next == 43) {
    __u8 head[2];
    if (load(skb, at, head, 2)) return found;
    next = head[0];
    at += ((__u32)head[1] + 1) * 8;
  }
  if (next == 41) {
    found.inner = at;
    if (load(skb, at + 6, &next, 1)) return found;
    at += IP6;
  }
  if (next == 17) found.udp = at;
  return found;
}

INLINE int put16(struct __sk_buff* skb, __u32 at, __u32 value) {
  __u16 v = swap16((__u16)value);
  return (int)store(skb, at, &v, 2, 0);
}

/* Cuts to UDP, BTH (12), METH (4) and, where BTH announces it, TSETH (4). 0: done, 1: left as it was, -1:
 * broken. The kernel cuts no packet that it has packed itself (IPv6 in IPv6) on its way through this machine.
 */
INLINE int trim(struct __sk_buff* skb, struct layers at, __u8 dscp) {
  __u8 flags;
  if (!at.udp || load(skb, at.udp + 8 + 8, &flags, 1)) return 1;
  __u32 length = at.udp + 8 + 16 + (flags & 0x10 ? 4 : 0);
  if (skb->len <= length || change_tail(skb, length, 0)) return 1;
  if (put16(skb, ETHER + 4, length - ETHER - IP6) || set_class(skb, ETHER, 0xfc, dscp << 2)) return -1;
  if (at.inner &&
      (put16(skb, at.inner + 4, length - at.inner - IP6) || set_class(skb, at.inner, 0xfc, dscp << 2)))
    return -1;
  return put16(skb, at.udp + 4, length - at.udp) || put16(skb, at.udp + 6, 0) ? -1 : 0;
}

INLINE __u64 cost(const struct queue_settings* set, __u32 bytes) { return bytes * set->ps_per_byte / 1000; }

/* The line is busy for `ns` longer. */
INLINE void admit(struct queue_state* q, __u64 now, __u64 ns) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    __u64 old = *(volatile __u64*)&q->busy_until;
    __u64 next = (old > now ? old : now) + ns;
    if (__sync_val_compare_and_swap(&q->busy_until, old, next) == old) return;
  }
}

INLINE int marked(const struct queue_settings* set, __u64 queued) {
  if (!set->ecn_max || queued < set->ecn_min) return 0;
  if (queued >= set->ecn_max) return 1;
  return random32() < ((queued - set->ecn_min) << 32) / (set->ecn_max - set->ecn_min);
}

INLINE void mark(struct __sk_buff* skb, struct queue_state* q, __u32 inner) {
  if (set_class(skb, ETHER, 3, 3)) return;
  if (inner) set_class(skb, inner, 3, 3);
  COUNT(marked);
}

SECTION("tc/queue") int queue(struct __sk_buff* skb) {
  __u32 zero = 0;
  struct queue_settings* set = map_lookup(&queue_set, &zero);
  struct queue_state* q = map_lookup(&queue_now, &zero);
  if (!set || !q) return TC_ACT_OK;
  __u8 head[8];
  if (skb->protocol != swap16(ETH_P_IPV6) || load(skb, ETHER, head, 8)) return TC_ACT_OK;
  __u8 tc = (__u8)(head[0] << 4 | head[1] >> 4), dscp = tc >> 2, next = head[6];
  __u64 now = now_ns(), bit = 1ull << (dscp & 63), time = cost(set, skb->len);
  COUNT(seen);
  __sync_fetch_and_add(&q->bytes, skb->len);
  if (skb->gso_segs > 1) COUNT(bursts);
  if (next == 58 || (set->high & bit)) { /* neighbour discovery goes with control */
    COUNT(high);
    admit(q, now, time);
    skb->priority = CLASS_HIGH;
    return TC_ACT_OK;
  }
  skb->priority = CLASS_DATA;
  __u64 until = *(volatile __u64*)&q->busy_until, begins = now + set->burst;
  __u64 queued = until > begins ? until - begins : 0;
  struct layers at = find(skb, next);
  if (set->trim && (set->trimmable & bit) && queued + time > set->trim) {
    int kept = trim(skb, at, (__u8)set->trimmed_dscp);
    if (!kept) {
      COUNT(trimmed);
      admit(q, now, cost(set, skb->len));
      skb->priority = CLASS_HIGH;
      return TC_ACT_OK;
    }
    COUNT(trim_failed);
    if (kept < 0) {
      COUNT(dropped);
      return TC_ACT_SHOT;
    }
  }
  if (set->drop && queued + time > set->drop) {
    COUNT(dropped);
    return TC_ACT_SHOT;
  }
  if ((tc & 3) && (tc & 3) != 3 && marked(set, queued)) mark(skb, q, at.inner);
  admit(q, now, time);
  return TC_ACT_OK;
}

SECTION("tc/wire") int wire(struct __sk_buff* skb) {
  __u32 zero = 0;
  struct wire_settings* set = map_lookup(&wire_set, &zero);
  struct wire_state* q = map_lookup(&wire_now, &zero);
  if (!set || !q) return TC_ACT_OK;
  COUNT(seen);
  if (set->loss && random32() < set->loss) {
    COUNT(lost);
    return TC_ACT_SHOT;
  }
  __u32 first = ETHER + IP6; /* behind the IPv6 header: a damaged packet still arrives where it was sent to */
  if (!set->corrupt || random32() >= set->corrupt || skb->len <= first) return TC_ACT_OK;
  __u32 at = first + random32() % (skb->len - first);
  __u8 byte;
  if (load(skb, at, &byte, 1)) return TC_ACT_OK;
  byte ^= (__u8)(1 + random32() % 255);
  if (!store(skb, at, &byte, 1, 0)) COUNT(corrupted);
  return TC_ACT_OK;
}
