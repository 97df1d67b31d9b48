/* One STOMP 1.2 load against one broker, checked and measured; the result is one JSON object on standard output.
 *
 * What it decides: when which frame is sent, and whether what came back is right. One process, one thread, one epoll:
 * on a small machine the generator shares the cores with the broker that it measures, so a message must cost it little.
 * Producers patch sequence numbers into ready-made batches of frames and write a batch at once; consumers scan frames
 * where the kernel put them; acknowledgements of one read leave in one write.
 *
 * What it must never do: report a rate for messages that it did not check. Every body carries
 *
 *     | run 8 | producer 8 | sequence 8 | filler ... |      each number 32 bits as eight letters 'A'..'P', high first
 *
 * and every group of consumers (all consumers of a queue; each consumer of a topic) must see each sequence number of
 * each producer exactly once, each consumer in rising order, and each body in its full length.
 *
 * Latency (--rate) is measured from the moment at which a message should have been sent, not from when it was sent: a
 * broker that stalls is charged for all messages that were due meanwhile (no coordinated omission).
 *
 * Exit status: 0 measured and right; 1 the broker or the network failed the load (the JSON says how); 2 usage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define BATCH_BYTES (64 * 1024)   /* one write; larger ones only lengthen the queue in the kernel */
#define READ_BYTES (256 * 1024)   /* one read; as much as loopback usually holds for a socket */
#define IDLE_READ_BYTES 2048      /* an idle connection reads CONNECTED and one RECEIPT, nothing else */
#define IDLE_OPENING_MAX 64       /* below the smallest usual listen backlog (100), so that no SYN is dropped */
#define STAMP 24                  /* bytes of run, producer and sequence at the head of each body */
#define SPIN_NS 60000             /* wake-up of a timer is late by about this much; the rest is waited out awake */
#define CLOSE_NS (10 * SECOND)    /* how long a broker may take to answer DISCONNECT */
#define FAULTS_KEPT 10
#define FULL_CHECK_EVERY 64       /* the filler of every so many-th message is compared as well */

static struct {
    const char *host, *login, *passcode, *destination, *ack;
    int port, consume_port, producers, consumers, size, prefetch, window, idle;
    bool persistent, consume_only, text, topic, individual, cumulative, histogram;
    uint64_t warm_count, count, backlog;
    double rate, warm_seconds, seconds, timeout, drain, hold, lead;
    uint32_t run;
} option = {.host = "127.0.0.1", .destination = "/queue/bench", .ack = "auto", .producers = 1, .consumers = 1,
            .size = 100, .timeout = 120, .drain = 20, .hold = 300};

/* ---- time, faults ------------------------------------------------------------------------------------------------ */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static char fault_text[FAULTS_KEPT][256];
static uint64_t fault_count, duplicates, reordered, corrupt, missing;
static bool fatal;  /* the load cannot go on: a connection failed */

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...) {
    if (fault_count++ < FAULTS_KEPT) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(fault_text[fault_count - 1], sizeof fault_text[0], format, arguments);
        va_end(arguments);
    }
}

static void *need(void *memory) {
    if (!memory) { fputs("load: out of memory\n", stderr); exit(1); }
    return memory;
}

__attribute__((noreturn, format(printf, 1, 2))) static void usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    exit(2);
}

/* ---- numbers in bodies, sets of sequence numbers ------------------------------------------------------------------- */

static inline void put_number(char *at, uint32_t value) {
    for (int i = 7; i >= 0; i--, value >>= 4) at[i] = (char)('A' + (value & 15));
}

static inline uint32_t get_number(const char *at) {
    uint32_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 4 | ((uint32_t)(at[i] - 'A') & 15);
    return value;
}

struct seen { uint64_t *bits, capacity, unique; };  /* capacity in words of 64 */

/* Adds a number to the set; false when it was there already. */
static inline bool see(struct seen *set, uint64_t number) {
    uint64_t word = number >> 6, bit = 1ULL << (number & 63);
    if (word >= set->capacity) {
        uint64_t capacity = word * 2 + 1024;
        set->bits = need(realloc(set->bits, capacity * 8));
        memset(set->bits + set->capacity, 0, (capacity - set->capacity) * 8);
        set->capacity = capacity;
    }
    if (set->bits[word] & bit) return false;
    set->bits[word] |= bit;
    set->unique++;
    return true;
}

/* ---- log-linear histogram: 128 steps for each power of two, so a value is known to 0.8 % ---------------------------- */

#define STEPS_LOG 7
#define STEPS (1 << STEPS_LOG)
struct histogram { uint64_t bucket[(64 - STEPS_LOG) * STEPS], count; int64_t max; double sum; };

static void record(struct histogram *h, int64_t value) {
    if (value < 0) value = 0;
    int shift = value < STEPS ? 0 : 63 - __builtin_clzll((uint64_t)value) - STEPS_LOG;
    int at = value < STEPS ? (int)value : (shift + 1) * STEPS + (int)((value >> shift) - STEPS);
    h->bucket[at]++;
    h->count++;
    h->sum += (double)value;
    if (value > h->max) h->max = value;
}

static int64_t bucket_top(int at) {
    if (at < STEPS) return at;
    int shift = at / STEPS - 1;
    return ((int64_t)(at % STEPS + STEPS + 1) << shift) - 1;
}

/* The smallest recorded value that at least this share of all values does not exceed, to the width of a bucket. */
static int64_t percentile(const struct histogram *h, double share) {
    uint64_t wanted = (uint64_t)(share * (double)h->count + 0.5), passed = 0;
    if (wanted < 1) wanted = 1;
    for (int i = 0; i < (64 - STEPS_LOG) * STEPS; i++)
        if ((passed += h->bucket[i]) >= wanted) return bucket_top(i) < h->max ? bucket_top(i) : h->max;
    return h->max;
}

static struct histogram latency, lateness;  /* of the broker; of this generator behind its own schedule */

/* ---- connections --------------------------------------------------------------------------------------------------- */

enum role { PRODUCER, CONSUMER, IDLE };
enum state { CONNECTING, SUBSCRIBING, READY, CLOSING, CLOSED };

struct connection {
    int fd, index;
    enum role role;
    enum state state;
    bool watches_write;
    char *in, *out;
    size_t in_length, in_capacity, out_at, out_length, out_capacity;
    /* producer */
    char *batch;
    size_t frame_size, body_at, receipt_at, batch_at, batch_length;
    uint32_t batch_frames;
    uint64_t sent, limit, confirmed;
    struct seen receipts;
    /* consumer */
    uint64_t delivered, *next;  /* next: lowest sequence number that this consumer may still see, by producer */
    struct seen *group;         /* by producer, shared by the consumers of a queue */
    char *ack_last;
    size_t ack_last_length;
};

static int epoll;
static struct connection *producers, *consumers;
static struct seen *groups;
static int group_count;
static char server[128];
static char *filler;
static int64_t paced_from;      /* intended time of message 0 */
static uint64_t paced_unmeasured;

static const char *role_name(const struct connection *c) {
    return c->role == PRODUCER ? "producer" : c->role == CONSUMER ? "consumer" : "idle connection";
}

static void lose(struct connection *c, const char *why) {
    fault("%s %d: %s", role_name(c), c->index, why);
    fatal = true;
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->state = CLOSED;
}

static void watch(struct connection *c, bool write) {
    if (c->fd < 0 || c->watches_write == write) return;
    struct epoll_event e = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
    c->watches_write = write;
}

/* Writes what it can; returns the number of bytes, 0 when the socket is full or gone. */
static size_t put(struct connection *c, const char *data, size_t length) {
    if (c->fd < 0) return 0;
    ssize_t n = send(c->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return (size_t)n;
    if (errno != EAGAIN && errno != EINTR) lose(c, strerror(errno));
    else watch(c, true);
    return 0;
}

static void append(struct connection *c, const char *data, size_t length) {
    if (c->out_length + length > c->out_capacity) {
        c->out_capacity = (c->out_length + length) * 2;
        c->out = need(realloc(c->out, c->out_capacity));
    }
    memcpy(c->out + c->out_length, data, length);
    c->out_length += length;
}

__attribute__((format(printf, 2, 3))) static void append_frame(struct connection *c, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    append(c, text, (size_t)n + 1);  /* with the NUL that ends a frame */
}

/* True when nothing is left to write. */
static bool flush(struct connection *c) {
    while (c->out_at < c->out_length) {
        size_t n = put(c, c->out + c->out_at, c->out_length - c->out_at);
        if (!n) return false;
        c->out_at += n;
    }
    c->out_at = c->out_length = 0;
    return true;
}

static void prepare_batch(struct connection *c) {
    char head[512], *frame;
    int n = snprintf(head, sizeof head, "SEND\ndestination:%s\n", option.destination);
    if (!option.text) n += snprintf(head + n, sizeof head - (size_t)n, "content-length:%d\n", option.size);
    if (option.persistent) n += snprintf(head + n, sizeof head - (size_t)n, "persistent:true\n");
    if (option.window) {
        n += snprintf(head + n, sizeof head - (size_t)n, "receipt:");
        c->receipt_at = (size_t)n;
        n += snprintf(head + n, sizeof head - (size_t)n, "AAAAAAAA\n");
    }
    n += snprintf(head + n, sizeof head - (size_t)n, "\n");
    c->body_at = (size_t)n;
    c->frame_size = (size_t)n + (size_t)option.size + 1;
    c->batch_frames = (uint32_t)(BATCH_BYTES / c->frame_size);
    if (c->batch_frames < 1) c->batch_frames = 1;
    c->batch = need(malloc(c->batch_frames * c->frame_size));
    for (uint32_t i = 0; i < c->batch_frames; i++) {
        frame = c->batch + i * c->frame_size;
        memcpy(frame, head, (size_t)n);
        memcpy(frame + n, filler, (size_t)option.size);
        put_number(frame + n, option.run);
        put_number(frame + n + 8, (uint32_t)c->index);
        frame[n + option.size] = 0;
    }
}

static bool open_connection(struct connection *c, enum role role, int index) {
    *c = (struct connection){.fd = -1, .role = role, .index = index};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(role == CONSUMER ? option.consume_port : option.port))};
    inet_pton(AF_INET, option.host, &address.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) { lose(c, strerror(errno)); return false; }
    struct timeval patience = {.tv_sec = 10};
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  /* bounds connect() */
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) { lose(c, strerror(errno)); return false; }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    c->in_capacity = role == IDLE ? IDLE_READ_BYTES : READ_BYTES + (size_t)option.size;
    c->in = need(malloc(c->in_capacity));
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e);
    append_frame(c, option.login ? "CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\nlogin:%s\npasscode:%s\n\n"
                                 : "CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n\n",
                 option.login, option.passcode);
    flush(c);
    if (role == PRODUCER) prepare_batch(c);
    if (role == CONSUMER) c->next = need(calloc((size_t)option.producers, sizeof *c->next));
    return c->state != CLOSED;
}

static void subscribe(struct connection *c) {
    char extra[64] = "";
    if (option.prefetch) snprintf(extra, sizeof extra, "activemq.prefetchSize:%d\n", option.prefetch);
    if (c->role == IDLE)
        append_frame(c, "SUBSCRIBE\nid:0\nack:auto\ndestination:%s.%d\nreceipt:subscribed\n\n", option.destination, c->index);
    else
        append_frame(c, "SUBSCRIBE\nid:%d\nack:%s\ndestination:%s\n%sreceipt:subscribed\n\n", c->index, option.ack,
                     option.destination, extra);
    c->state = SUBSCRIBING;
}

/* ---- frames from the broker ------------------------------------------------------------------------------------------ */

struct span { const char *at; size_t length; };
struct frame { struct span command, ack, receipt, message, server, body; const char *end; };

static inline bool header(const char *line, size_t length, const char *name, size_t name_length, struct span *value) {
    if (length < name_length || memcmp(line, name, name_length)) return false;
    *value = (struct span){line + name_length, length - name_length};
    return true;
}
#define HEADER(name, value) header(line, length, name, sizeof name - 1, value)

/* Finds one whole frame at p: 1 found, 0 more bytes are needed, -1 not a frame. */
static int find_frame(const char *p, const char *end, struct frame *f) {
    struct span content_length = {0};
    const char *line = p, *stop = memchr(p, '\n', (size_t)(end - p));
    memset(f, 0, sizeof *f);
    if (!stop) return end - p > 64 ? -1 : 0;
    f->command = (struct span){p, (size_t)(stop - p)};
    for (;;) {
        line = stop + 1;
        if (line >= end || !(stop = memchr(line, '\n', (size_t)(end - line)))) return 0;
        size_t length = (size_t)(stop - line);
        if (length == 0) break;
        switch (*line) {
        case 'a': HEADER("ack:", &f->ack); break;
        case 'c': HEADER("content-length:", &content_length); break;
        case 'm': HEADER("message:", &f->message); break;
        case 'r': HEADER("receipt-id:", &f->receipt); break;
        case 's': HEADER("server:", &f->server); break;
        }
    }
    const char *body = stop + 1, *last;
    if (content_length.at) {
        long n = strtol(content_length.at, NULL, 10);
        if (n < 0) return -1;
        if (n >= end - body) return 0;
        last = body + n;
        if (*last) return -1;
    } else if (!(last = memchr(body, 0, (size_t)(end - body)))) return 0;
    f->body = (struct span){body, (size_t)(last - body)};
    f->end = last + 1;
    return 1;
}

static void acknowledge(struct connection *c, const struct frame *f) {
    if (!f->ack.at) { fault("consumer %d: MESSAGE without ack header", c->index); corrupt++; return; }
    append(c, "ACK\nid:", 7);
    append(c, f->ack.at, f->ack.length);
    append(c, "\n\n", 3);
}

static void message(struct connection *c, const struct frame *f, int64_t now) {
    c->delivered++;
    if (option.individual) acknowledge(c, f);
    const char *body = f->body.at;
    if (f->body.length != (size_t)option.size || get_number(body) != option.run) {
        corrupt++;
        fault("consumer %d: body of %zu bytes, expected %d%s", c->index, f->body.length, option.size,
              f->body.length == (size_t)option.size ? "; it is of another run: the destination was not empty" : "");
        return;
    }
    uint32_t from = get_number(body + 8);
    uint64_t sequence = get_number(body + 16);
    if (from >= (uint32_t)option.producers ||
        (c->delivered % FULL_CHECK_EVERY == 0 && memcmp(body + STAMP, filler + STAMP, (size_t)option.size - STAMP))) {
        corrupt++;
        fault("consumer %d: body does not hold what was sent", c->index);
        return;
    }
    if (!see(&c->group[from], sequence)) {
        duplicates++;
        fault("consumer %d: message %u:%llu a second time", c->index, from, (unsigned long long)sequence);
    } else if (sequence < c->next[from]) {
        reordered++;
        fault("consumer %d: message %u:%llu after %llu", c->index, from, (unsigned long long)sequence,
              (unsigned long long)c->next[from] - 1);
    } else {
        c->next[from] = sequence + 1;
    }
    if (option.rate > 0) {
        uint64_t n = sequence * (uint64_t)option.producers + from;
        if (n >= paced_unmeasured) record(&latency, now - paced_from - (int64_t)((double)n * (SECOND / option.rate)));
    }
}

static void receipt(struct connection *c, const struct frame *f) {
    if (c->state == SUBSCRIBING && f->receipt.length == 10 && !memcmp(f->receipt.at, "subscribed", 10)) {
        c->state = READY;
    } else if (c->state == CLOSING && f->receipt.length == 3 && !memcmp(f->receipt.at, "bye", 3)) {
        close(c->fd);
        c->fd = -1;
        c->state = CLOSED;
    } else if (c->role == PRODUCER && f->receipt.length == 8) {
        uint64_t sequence = get_number(f->receipt.at);
        if (sequence >= c->sent || !see(&c->receipts, sequence)) {
            fault("producer %d: receipt %llu never asked for, or twice", c->index, (unsigned long long)sequence);
            duplicates++;
        } else {
            c->confirmed++;
        }
    } else {
        fault("%s %d: unexpected receipt %.*s", role_name(c), c->index, (int)f->receipt.length, f->receipt.at);
    }
}

static void take_frame(struct connection *c, const struct frame *f, int64_t now) {
    const char *command = f->command.at;
    size_t length = f->command.length;
    if (c->role == CONSUMER && length == 7 && !memcmp(command, "MESSAGE", 7)) {
        message(c, f, now);
        if (option.cumulative && f->ack.at) { c->ack_last = (char *)f->ack.at; c->ack_last_length = f->ack.length; }
    } else if (length == 7 && !memcmp(command, "RECEIPT", 7) && f->receipt.at) {
        receipt(c, f);
    } else if (length == 9 && !memcmp(command, "CONNECTED", 9) && c->state == CONNECTING) {
        snprintf(server, sizeof server, "%.*s", (int)f->server.length, f->server.at ? f->server.at : "");
        if (c->role == PRODUCER) c->state = READY;
        else subscribe(c);
    } else if (length == 5 && !memcmp(command, "ERROR", 5)) {
        char why[200];
        const struct span *s = f->message.at ? &f->message : &f->body;
        snprintf(why, sizeof why, "broker answered ERROR: %.*s", (int)(s->length < 150 ? s->length : 150), s->at);
        lose(c, why);
    } else {
        fault("%s %d: unexpected frame %.*s", role_name(c), c->index, (int)(length < 40 ? length : 40), command);
        corrupt++;
    }
}

static void take_input(struct connection *c) {
    ssize_t n = recv(c->fd, c->in + c->in_length, c->in_capacity - c->in_length, MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) lose(c, strerror(errno));
        return;
    }
    if (n == 0) {
        if (c->state == CLOSING) { close(c->fd); c->fd = -1; c->state = CLOSED; }
        else lose(c, "the broker closed the connection");
        return;
    }
    int64_t now = option.rate > 0 ? now_ns() : 0;
    const char *p = c->in, *end = c->in + c->in_length + n;
    struct frame f;
    int found = 0;
    for (;;) {
        while (p < end && (*p == '\n' || *p == '\r')) p++;
        if (p == end || (found = find_frame(p, end, &f)) <= 0) break;
        p = f.end;
        take_frame(c, &f, now);
        if (c->fd < 0) return;
    }
    if (p < end && found < 0) { lose(c, "what the broker sent is not a STOMP frame"); return; }
    if (c->ack_last) {
        append(c, "ACK\nid:", 7);
        append(c, c->ack_last, c->ack_last_length);
        append(c, "\n\n", 3);
        c->ack_last = NULL;
    }
    c->in_length = (size_t)(end - p);
    if (c->in_length) memmove(c->in, p, c->in_length);
    if (c->in_length == c->in_capacity) { lose(c, "frame larger than the read buffer"); return; }
    if (c->out_length) flush(c);
}

/* ---- sending ----------------------------------------------------------------------------------------------------------- */

static uint64_t deliveries(void) {
    uint64_t sum = 0;
    for (int i = 0; i < option.consumers; i++) sum += consumers[i].delivered;
    return sum;
}

static uint64_t sum_sent(void) {
    uint64_t sum = 0;
    for (int i = 0; i < option.producers; i++) sum += producers[i].sent;
    return sum;
}

static uint64_t sum_confirmed(void) {
    uint64_t sum = 0;
    for (int i = 0; i < option.producers; i++) sum += producers[i].confirmed;
    return sum;
}

/* Messages sent that the slowest group has not received. */
static uint64_t in_flight(void) {
    uint64_t least = UINT64_MAX;
    if (!option.topic) least = deliveries();
    for (int i = 0; option.topic && i < option.consumers; i++)
        if (consumers[i].delivered < least) least = consumers[i].delivered;
    uint64_t sent = sum_sent();
    return sent > least ? sent - least : 0;
}

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* How many messages this producer may compose now. */
static uint64_t allowance(const struct connection *c, int64_t now) {
    uint64_t n = least(c->limit - c->sent, c->batch_frames);
    if (option.window) n = least(n, (uint64_t)option.window - (c->sent - c->confirmed));
    if (option.backlog) {
        uint64_t waiting = in_flight();
        n = waiting >= option.backlog ? 0 : least(n, option.backlog - waiting);
    }
    if (option.rate > 0) {  /* message k of producer i is message k * producers + i of the schedule */
        if (now < paced_from) return 0;
        uint64_t due = (uint64_t)((double)(now - paced_from) * option.rate / SECOND) + 1, i = (uint64_t)c->index;
        uint64_t mine = due > i ? (due - i + (uint64_t)option.producers - 1) / (uint64_t)option.producers : 0;
        n = mine > c->sent ? least(n, mine - c->sent) : 0;
    }
    return n;
}

/* Composes and writes at most one batch; true when another may follow at once. */
static bool pump(struct connection *c) {
    if (c->state != READY || c->watches_write || !flush(c)) return false;
    if (c->batch_at == c->batch_length) {
        int64_t now = option.rate > 0 ? now_ns() : 0;
        uint64_t n = allowance(c, now);
        if (!n) return false;
        for (uint64_t i = 0; i < n; i++, c->sent++) {
            char *frame = c->batch + i * c->frame_size;
            put_number(frame + c->body_at + 16, (uint32_t)c->sent);
            if (option.window) put_number(frame + c->receipt_at, (uint32_t)c->sent);
            if (option.rate > 0) {
                uint64_t k = c->sent * (uint64_t)option.producers + (uint64_t)c->index;
                if (k >= paced_unmeasured)
                    record(&lateness, now - paced_from - (int64_t)((double)k * (SECOND / option.rate)));
            }
        }
        c->batch_at = 0;
        c->batch_length = n * c->frame_size;
    }
    c->batch_at += put(c, c->batch + c->batch_at, c->batch_length - c->batch_at);
    return c->fd >= 0 && !c->watches_write;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static int64_t deadline;

/* Waits for input at most until an instant (0: only looks), and takes it. */
static void turn(int64_t until) {
    struct epoll_event events[256];
    int64_t wait = until - now_ns();
    if (wait > 0) {
        struct pollfd p = {.fd = epoll, .events = POLLIN};
        ppoll(&p, 1, &(struct timespec){wait / SECOND, wait % SECOND}, NULL);
    }
    int n = epoll_wait(epoll, events, 256, 0);
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        if (c->fd >= 0 && (events[i].events & EPOLLOUT)) { watch(c, false); flush(c); }
        if (c->fd >= 0 && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) take_input(c);
    }
}

static bool all_in(struct connection *set, int n, enum state state) {
    for (int i = 0; i < n; i++)
        if (set[i].state != state && set[i].fd >= 0) return false;
    return true;
}

static bool until_state(struct connection *set, int n, enum state state, int64_t limit, const char *what) {
    while (!fatal && !all_in(set, n, state)) {
        if (now_ns() >= limit) { fault("%s: no answer in time", what); fatal = true; return false; }
        turn(limit < now_ns() + SECOND / 10 ? limit : now_ns() + SECOND / 10);
    }
    return !fatal;
}

struct mark { int64_t at; uint64_t sent, delivered, confirmed; double cpu; };

static struct mark take_mark(void) {
    return (struct mark){now_ns(), sum_sent(), deliveries(), sum_confirmed(), cpu_seconds()};
}

/* Messages that are through: received by every group, else confirmed, else sent. */
static uint64_t progress(void) {
    if (option.consumers) return option.topic ? deliveries() / (uint64_t)option.consumers : deliveries();
    return option.window ? sum_confirmed() : sum_sent();
}

static bool all_sent(void) {
    for (int i = 0; i < option.producers; i++)
        if (producers[i].sent < producers[i].limit) return false;
    return true;
}

/* Runs producers and consumers until so many messages are through, or the instant, or a failure, or until nothing more
 * comes although everything was sent. */
static void run_until(uint64_t wanted, int64_t until) {
    uint64_t through = progress();
    int64_t moved = now_ns();
    while (!fatal && progress() < wanted) {
        bool more = false;
        for (int i = 0; i < option.producers && !option.consume_only; i++) more |= pump(&producers[i]);
        int64_t now = now_ns(), wake = now + SECOND / 20;
        if (now >= until || now >= deadline) return;
        if (progress() != through || !all_sent()) { through = progress(); moved = now; }
        else if (now - moved > (int64_t)(option.drain * SECOND)) return;
        if (option.rate > 0) {
            double due = (double)sum_sent() * (SECOND / option.rate);
            int64_t next = paced_from + (int64_t)due - SPIN_NS;
            if (next < wake) wake = next;
        }
        if (until < wake) wake = until;
        turn(more ? 0 : wake);
    }
}

static void share_out(uint64_t total) {
    uint64_t n = (uint64_t)option.producers;
    for (uint64_t i = 0; i < n; i++) producers[i].limit = total / n + (i < total % n);
}

static void check_complete(void) {
    for (int g = 0; g < group_count; g++)
        for (int p = 0; p < option.producers; p++) {
            uint64_t sent = producers[p].sent, seen = groups[g * option.producers + p].unique;
            if (seen >= sent) continue;
            missing += sent - seen;
            fault("group %d: %llu of %llu messages of producer %d did not arrive", g, (unsigned long long)(sent - seen),
                  (unsigned long long)sent, p);
        }
    for (int p = 0; option.window && !option.consume_only && p < option.producers; p++)
        if (producers[p].confirmed < producers[p].sent) {
            missing += producers[p].sent - producers[p].confirmed;
            fault("producer %d: %llu receipts did not arrive", p,
                  (unsigned long long)(producers[p].sent - producers[p].confirmed));
        }
}

static bool settled(void) {
    if (option.window && !option.consume_only && sum_confirmed() < sum_sent()) return false;
    for (int p = 0; p < option.producers; p++)
        if (producers[p].batch_at < producers[p].batch_length) return false;
    for (int g = 0; g < group_count; g++)
        for (int p = 0; p < option.producers; p++)
            if (groups[g * option.producers + p].unique < producers[p].sent) return false;
    return true;
}

static void disconnect(struct connection *set, int n, const char *what) {
    for (int i = 0; i < n; i++)
        if (set[i].fd >= 0) {
            append_frame(&set[i], "DISCONNECT\nreceipt:bye\n\n");
            set[i].state = CLOSING;
            flush(&set[i]);
        }
    until_state(set, n, CLOSED, now_ns() + CLOSE_NS, what);
}

static void open_all(void) {
    for (int i = 0; i < option.consumers && !fatal; i++) {
        if (open_connection(&consumers[i], CONSUMER, i))
            consumers[i].group = groups + (option.topic ? i : 0) * option.producers;
    }
    if (!until_state(consumers, option.consumers, READY, now_ns() + 30 * SECOND, "subscribing")) return;
    for (int i = 0; i < option.producers; i++) {
        if (option.consume_only) producers[i] = (struct connection){.fd = -1, .index = i, .state = CLOSED};
        else if (!open_connection(&producers[i], PRODUCER, i)) return;
    }
    if (!option.consume_only) until_state(producers, option.producers, READY, now_ns() + 30 * SECOND, "connecting");
}

static void run_flow(struct mark *from, struct mark *to) {
    group_count = option.consumers ? (option.topic ? option.consumers : 1) : 0;
    producers = need(calloc((size_t)option.producers, sizeof *producers));
    consumers = need(calloc((size_t)option.consumers + 1, sizeof *consumers));
    groups = need(calloc((size_t)(group_count * option.producers) + 1, sizeof *groups));
    open_all();
    *from = *to = take_mark();
    if (fatal) return;
    struct timespec lead = {(time_t)option.lead, (long)((option.lead - (double)(time_t)option.lead) * 1e9)};
    nanosleep(&lead, NULL);
    uint64_t warm = option.warm_count, total = warm + option.count;
    if (option.rate > 0) {
        paced_unmeasured = (uint64_t)(option.rate * option.warm_seconds);
        total = paced_unmeasured + (uint64_t)(option.rate * option.seconds);
        warm = paced_unmeasured;
        paced_from = now_ns() + SECOND / 100;
    } else if (!option.count) {
        total = (uint64_t)UINT32_MAX * (uint64_t)option.producers;
    }
    share_out(total);
    if (option.consume_only)
        for (int i = 0; i < option.producers; i++) producers[i].sent = producers[i].limit;
    *from = take_mark();
    if (option.warm_seconds > 0 && option.rate <= 0) run_until(UINT64_MAX, now_ns() + (int64_t)(option.warm_seconds * SECOND));
    else if (warm) run_until(warm, INT64_MAX);
    if (warm || option.warm_seconds > 0) *from = take_mark();
    run_until(total, option.seconds > 0 && option.rate <= 0 ? from->at + (int64_t)(option.seconds * SECOND) : INT64_MAX);
    *to = take_mark();
    for (int i = 0; i < option.producers && !option.consume_only; i++)
        if (producers[i].sent < producers[i].limit) {
            if (option.seconds <= 0) fault("producer %d: stopped by --timeout after %llu messages", i,
                                           (unsigned long long)producers[i].sent);
            producers[i].limit = producers[i].sent;
        }
    int64_t patience = now_ns() + (int64_t)(option.drain * SECOND);
    while (!fatal && !settled() && now_ns() < patience) {
        for (int i = 0; i < option.producers; i++) pump(&producers[i]);
        turn(now_ns() + SECOND / 100);
    }
    if (!fatal) disconnect(producers, option.producers, "disconnecting producers");
    if (!fatal) disconnect(consumers, option.consumers, "disconnecting consumers");
    check_complete();
}

static void run_idle(struct mark *from, struct mark *to) {
    struct connection *all = need(calloc((size_t)option.idle, sizeof *all));
    int opened = 0, ready = 0;
    option.producers = option.consumers = 0;
    *from = take_mark();
    while (!fatal && ready < option.idle) {
        while (opened < option.idle && opened - ready < IDLE_OPENING_MAX)
            if (open_connection(&all[opened], IDLE, opened)) opened++;
            else return;
        turn(now_ns() + SECOND / 50);
        for (; ready < opened && all[ready].state == READY; ready++) {}
        if (now_ns() >= deadline) { fault("%d of %d connections ready in time", ready, option.idle); fatal = true; }
    }
    *to = take_mark();
    if (fatal) return;
    fputs("ready\n", stderr);
    int64_t until = now_ns() + (int64_t)(option.hold * SECOND);
    for (;;) {
        struct pollfd p[2] = {{.fd = 0, .events = POLLIN}, {.fd = epoll, .events = POLLIN}};
        if (poll(p, 2, 100) > 0 && p[0].revents) break;
        turn(0);
        if (fatal || now_ns() >= until) break;
    }
    if (!fatal) disconnect(all, option.idle, "disconnecting");
}

/* ---- report ---------------------------------------------------------------------------------------------------------------- */

static void print_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text < 32) printf("\\u%04x", (unsigned)*text);
        else putchar(*text);
    }
    putchar('"');
}

static void print_latency(const char *name, const struct histogram *h, bool buckets) {
    printf(", \"%s\": {\"count\": %llu, \"mean_us\": %.1f, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, "
           "\"p999_us\": %.1f, \"max_us\": %.1f", name, (unsigned long long)h->count,
           h->count ? h->sum / (double)h->count / 1e3 : 0, percentile(h, .5) / 1e3, percentile(h, .9) / 1e3,
           percentile(h, .99) / 1e3, percentile(h, .999) / 1e3, h->max / 1e3);
    if (buckets) {
        printf(", \"buckets_ns\": [");
        const char *comma = "";
        for (int i = 0; i < (64 - STEPS_LOG) * STEPS; i++)
            if (h->bucket[i]) {
                printf("%s[%lld, %llu]", comma, (long long)bucket_top(i), (unsigned long long)h->bucket[i]);
                comma = ", ";
            }
        putchar(']');
    }
    putchar('}');
}

static void report(const struct mark *from, const struct mark *to) {
    double seconds = (double)(to->at - from->at) / SECOND, per = seconds > 0 ? 1 / seconds : 0;
    printf("{\"ok\": %s, \"server\": ", fault_count || fatal ? "false" : "true");
    print_string(server);
    printf(", \"run\": %u, \"seconds\": %.6f, \"generator_cpu_seconds\": %.4f", option.run, seconds, to->cpu - from->cpu);
    if (option.idle) printf(", \"connections\": %d", option.idle);
    else {
        printf(", \"sent\": %llu, \"delivered\": %llu, \"confirmed\": %llu", (unsigned long long)(to->sent - from->sent),
               (unsigned long long)(to->delivered - from->delivered), (unsigned long long)(to->confirmed - from->confirmed));
        printf(", \"sends_per_second\": %.1f, \"deliveries_per_second\": %.1f, \"receipts_per_second\": %.1f",
               (double)(to->sent - from->sent) * per, (double)(to->delivered - from->delivered) * per,
               (double)(to->confirmed - from->confirmed) * per);
        printf(", \"total_sent\": %llu, \"total_delivered\": %llu", (unsigned long long)sum_sent(), (unsigned long long)deliveries());
    }
    if (option.rate > 0) {
        print_latency("latency", &latency, option.histogram);
        print_latency("generator_lateness", &lateness, false);
    }
    printf(", \"faults\": {\"count\": %llu, \"missing\": %llu, \"duplicate\": %llu, \"reordered\": %llu, \"corrupt\": %llu, "
           "\"first\": [", (unsigned long long)fault_count, (unsigned long long)missing, (unsigned long long)duplicates,
           (unsigned long long)reordered, (unsigned long long)corrupt);
    for (uint64_t i = 0; i < fault_count && i < FAULTS_KEPT; i++) {
        if (i) printf(", ");
        print_string(fault_text[i]);
    }
    printf("]}}\n");
}

/* ---- command line -------------------------------------------------------------------------------------------------------------- */

static const char help[] =
    "usage: load --port N [options]        one STOMP load, checked; prints one JSON object\n"
    "  --host A --port N --login U --passcode P     where (default 127.0.0.1, no login)\n"
    "  --consume-port N     where the consumers connect, if it is another broker of a network\n"
    "  --destination D      /queue/NAME: consumers compete; /topic/NAME: each consumer gets all\n"
    "  --producers N --consumers N --size BYTES     at least 24 bytes\n"
    "  --persistent         SEND carries persistent:true\n"
    "  --text               no content-length header\n"
    "  --ack auto|client|client-individual          acknowledgements are sent once per read\n"
    "  --prefetch N         activemq.prefetchSize of each subscription\n"
    "  --window N           each SEND asks for a receipt; at most N unanswered per producer\n"
    "  --backlog N          producers wait while N messages are not yet received\n"
    "  --rate N             messages per second in all, sent on schedule whatever the broker does; latency\n"
    "  --warm-count N | --warm-seconds S            not measured\n"
    "  --count N | --seconds S                      measured; --rate needs --seconds\n"
    "  --consume-only --run ID   nothing is sent: --count messages of an earlier run must arrive\n"
    "  --idle N             N connections, each with a subscription to its own queue DESTINATION.n; says \"ready\" on\n"
    "                       standard error and holds them until standard input has a line or ends\n"
    "  --lead S             wait between the last subscription and the first message\n"
    "  --hold S --drain S --timeout S   bounds: idle hold, wait for the last messages, whole run\n"
    "  --histogram          latency buckets in the JSON\n";

static double number(const char *name, const char *text, double low, double high) {
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || value < low || value > high) usage("--%s %s: a number from %g to %g is needed", name, text, low, high);
    return value;
}

static void parse(int argc, char **argv) {
    static const struct option names[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"consume-port", 1, 0, 'q'}, {"login", 1, 0, 'l'}, {"passcode", 1, 0, 'L'}, {"destination", 1, 0, 'd'},
        {"producers", 1, 0, 'P'}, {"consumers", 1, 0, 'C'}, {"size", 1, 0, 's'}, {"persistent", 0, 0, 'D'}, {"text", 0, 0, 'x'},
        {"ack", 1, 0, 'a'}, {"prefetch", 1, 0, 'f'}, {"window", 1, 0, 'w'}, {"backlog", 1, 0, 'b'}, {"rate", 1, 0, 'r'},
        {"warm-count", 1, 0, 'u'}, {"warm-seconds", 1, 0, 'U'}, {"count", 1, 0, 'n'}, {"seconds", 1, 0, 'S'},
        {"consume-only", 0, 0, 'c'}, {"run", 1, 0, 'R'}, {"idle", 1, 0, 'i'}, {"hold", 1, 0, 'H'}, {"lead", 1, 0, 'k'}, {"drain", 1, 0, 'e'},
        {"timeout", 1, 0, 't'}, {"histogram", 0, 0, 'g'}, {"help", 0, 0, '?'}, {0}};
    int which, at;
    while ((which = getopt_long(argc, argv, "", names, &at)) != -1) {
        const char *name = which == '?' ? "" : names[at].name;
        switch (which) {
        case 'h': option.host = optarg; break;
        case 'p': option.port = (int)number(name, optarg, 1, 65535); break;
        case 'q': option.consume_port = (int)number(name, optarg, 1, 65535); break;
        case 'l': option.login = optarg; if (!option.passcode) option.passcode = ""; break;
        case 'L': option.passcode = optarg; break;
        case 'd': option.destination = optarg; break;
        case 'P': option.producers = (int)number(name, optarg, 1, 10000); break;
        case 'C': option.consumers = (int)number(name, optarg, 0, 10000); break;
        case 's': option.size = (int)number(name, optarg, STAMP, 64 << 20); break;
        case 'D': option.persistent = true; break;
        case 'x': option.text = true; break;
        case 'a': option.ack = optarg; break;
        case 'f': option.prefetch = (int)number(name, optarg, 1, 1e9); break;
        case 'w': option.window = (int)number(name, optarg, 1, 1e9); break;
        case 'b': option.backlog = (uint64_t)number(name, optarg, 1, 1e12); break;
        case 'r': option.rate = number(name, optarg, 0.1, 1e7); break;
        case 'u': option.warm_count = (uint64_t)number(name, optarg, 0, 4e9); break;
        case 'U': option.warm_seconds = number(name, optarg, 0, 86400); break;
        case 'n': option.count = (uint64_t)number(name, optarg, 1, 4e9); break;
        case 'S': option.seconds = number(name, optarg, 0.01, 86400); break;
        case 'c': option.consume_only = true; break;
        case 'R': option.run = (uint32_t)number(name, optarg, 0, UINT32_MAX); break;
        case 'i': option.idle = (int)number(name, optarg, 1, 1000000); break;
        case 'H': option.hold = number(name, optarg, 0, 86400); break;
        case 'k': option.lead = number(name, optarg, 0, 86400); break;
        case 'e': option.drain = number(name, optarg, 0, 86400); break;
        case 't': option.timeout = number(name, optarg, 1, 86400); break;
        case 'g': option.histogram = true; break;
        default: fputs(help, stderr); exit(2);
        }
    }
    struct in_addr address;
    if (optind < argc) usage("unexpected argument %s", argv[optind]);
    if (!option.port) usage("--port is needed (--help lists all options)");
    if (!option.consume_port) option.consume_port = option.port;
    if (inet_pton(AF_INET, option.host, &address) != 1) usage("--host %s: an IPv4 address is needed", option.host);
    option.individual = !strcmp(option.ack, "client-individual");
    option.cumulative = !strcmp(option.ack, "client");
    option.topic = !strncmp(option.destination, "/topic/", 7);
    if (!option.individual && !option.cumulative && strcmp(option.ack, "auto"))
        usage("--ack %s: auto, client or client-individual", option.ack);
    if (option.passcode && !option.login) usage("--passcode needs --login");
    if (strlen(option.destination) > 200) usage("--destination: at most 200 bytes");
    if (option.idle) return;
    if (!option.count && option.seconds <= 0) usage("--count or --seconds is needed");
    if (option.rate > 0 && (option.seconds <= 0 || option.count)) usage("--rate needs --seconds, and no --count");
    if (option.consume_only && (!option.count || !option.run)) usage("--consume-only needs --count and --run");
    if (option.backlog && !option.consumers) usage("--backlog needs consumers");
    if (option.warm_count && option.warm_seconds > 0) usage("--warm-count and --warm-seconds exclude one another");
    if (option.count && option.warm_seconds > 0) usage("--count goes with --warm-count");
    if (option.seconds > 0 && option.warm_count) usage("--seconds goes with --warm-seconds");
}

int main(int argc, char **argv) {
    parse(argc, argv);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int wanted = option.idle ? option.idle : option.producers + option.consumers;
    if ((rlim_t)wanted + 16 > files.rlim_cur)
        usage("%d connections need more open files than the limit of %llu", wanted, (unsigned long long)files.rlim_cur);
    prctl(PR_SET_TIMERSLACK, 1);  /* ns: the default of 50 us would be added to every paced send */
    if (!option.run) option.run = ((uint32_t)now_ns() ^ (uint32_t)getpid() << 20) | 1;
    filler = need(malloc((size_t)option.size));
    for (int i = 0; i < option.size; i++) filler[i] = (char)('a' + i % 26);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    deadline = now_ns() + (int64_t)(option.timeout * SECOND);
    struct mark from = {0}, to = {0};
    if (option.idle) run_idle(&from, &to);
    else run_flow(&from, &to);
    report(&from, &to);
    return fault_count || fatal ? 1 : 0;
}
