/* The load generator of the fan-out benchmark: many WebSocket clients in one cheap process.
 *
 * load PORT PATH CLIENTS FRAMES GREETINGS [TEXT ...]
 *
 * Connects CLIENTS clients to 127.0.0.1, sends every TEXT on each, and reads until GREETINGS frames came on each. Then
 * it says "ready", and counts frames that carry a mark, "@@<CLOCK_MONOTONIC in ns>@@", until every client has FRAMES
 * of them. At last it prints how many came, how long that took and how old they were when they came, as JSON, and
 * stays connected until it is killed: what a server pays for ends of connections is none of this.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 18, EVENTS = 256, SILENCE_MS = 60000 };

struct client {
  int fd;
  long frames, marked;
  size_t length;
  unsigned char *buffer;
};

static long wanted, finished;
static uint32_t *ages_us;
static size_t ages, ages_room;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void send_all(int fd, const void *data, size_t length) {
  for (const char *at = data; length;) {
    ssize_t sent = write(fd, at, length);
    if (sent < 0) die("write");
    at += sent;
    length -= sent;
  }
}

/* A masked text frame; the mask is zero, which the protocol allows. */
static void send_text(int fd, const char *text) {
  size_t length = strlen(text);
  unsigned char frame[8 + 65536] = {0x81};
  size_t head = 2;
  if (length > 65000) die("a text is too long");
  if (length < 126) {
    frame[1] = 0x80 | length;
  } else {
    frame[1] = 0x80 | 126;
    frame[2] = length >> 8;
    frame[3] = length & 255;
    head = 4;
  }
  memset(frame + head, 0, 4);
  memcpy(frame + head + 4, text, length);
  send_all(fd, frame, head + 4 + length);
}

/* A frame may carry several marks: a server may join adjacent deltas into one. Each mark is a delivered delta. */
static void count(struct client *client, const unsigned char *payload, size_t length) {
  client->frames++;
  const char *at = (const char *)payload, *end = at + length, *mark;
  while ((mark = memmem(at, end - at, "@@", 2))) {
    int64_t age = now_ns() - strtoll(mark + 2, NULL, 10);
    if (ages < ages_room) ages_us[ages++] = age / 1000;
    if (++client->marked == wanted) finished++;
    at = memmem(mark + 2, end - mark - 2, "@@", 2);
    if (!at) return;
    at += 2;
  }
}

/* Takes whole frames out of the client's buffer. */
static void parse(struct client *client) {
  size_t at = 0;
  for (;;) {
    unsigned char *frame = client->buffer + at;
    size_t have = client->length - at, head = 2;
    if (have < 2) break;
    uint64_t length = frame[1] & 127;
    if (length == 126) {
      head = 4;
      if (have < head) break;
      length = frame[2] << 8 | frame[3];
    } else if (length == 127) {
      head = 10;
      if (have < head) break;
      length = 0;
      for (int i = 2; i < 10; i++) length = length << 8 | frame[i];
    }
    if (head + length > BUFFER) {
      fprintf(stderr, "a frame of %lu bytes\n", (unsigned long)length);
      exit(1);
    }
    if (have < head + length) break;
    if ((frame[0] & 15) == 8) {
      fprintf(stderr, "the server closed a connection\n");
      exit(1);
    }
    if ((frame[0] & 15) < 8) count(client, frame + head, length);
    at += head + length;
  }
  memmove(client->buffer, client->buffer + at, client->length - at);
  client->length -= at;
}

/* Reads once; false when nothing was there. */
static int receive(struct client *client) {
  ssize_t got = read(client->fd, client->buffer + client->length, BUFFER - client->length);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (got < 0) die("read");
  if (got == 0) {
    fprintf(stderr, "the server ended a connection\n");
    exit(1);
  }
  client->length += got;
  parse(client);
  return 1;
}

static void open_client(struct client *client, int port, const char *path) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  client->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client->fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
  int one = 1;
  setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  char request[1024];
  snprintf(request, sizeof request,
           "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
           path, port);
  send_all(client->fd, request, strlen(request));
  client->buffer = malloc(BUFFER + 1);
  for (;;) {
    ssize_t got = read(client->fd, client->buffer + client->length, BUFFER - client->length);
    if (got <= 0) die("handshake");
    client->length += got;
    client->buffer[client->length] = 0;
    unsigned char *end = memmem(client->buffer, client->length, "\r\n\r\n", 4);
    if (!end) continue;
    if (strncmp((char *)client->buffer, "HTTP/1.1 101", 12)) {
      fprintf(stderr, "%s\n", client->buffer);
      exit(1);
    }
    end += 4;
    client->length -= end - client->buffer;
    memmove(client->buffer, end, client->length);
    parse(client);
    return;
  }
}

static int by_age(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static uint32_t quantile(double q) { return ages ? ages_us[(size_t)(q * (ages - 1))] : 0; }

int main(int argc, char **argv) {
  if (argc < 6) return 2;
  int port = atoi(argv[1]), clients = atoi(argv[3]), greetings = atoi(argv[5]);
  long frames = atol(argv[4]);
  struct rlimit files = {clients + 64, clients + 64};
  setrlimit(RLIMIT_NOFILE, &files);
  struct client *all = calloc(clients, sizeof *all);
  ages_room = (size_t)clients * frames;
  ages_us = malloc(ages_room * sizeof *ages_us);
  wanted = frames;
  int poll = epoll_create1(0);
  for (int i = 0; i < clients; i++) {
    open_client(&all[i], port, argv[2]);
    for (int text = 6; text < argc; text++) send_text(all[i].fd, argv[text]);
    while (all[i].frames < greetings) receive(&all[i]);
    fcntl(all[i].fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
    epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event);
  }
  printf("ready\n");
  fflush(stdout);
  int64_t began = 0;
  struct epoll_event events[EVENTS];
  while (finished < clients) {
    int ready = epoll_wait(poll, events, EVENTS, SILENCE_MS);
    if (ready <= 0) {
      fprintf(stderr, "nothing came for a minute; %ld of %d clients have everything\n", finished, clients);
      return 1;
    }
    if (!began) began = now_ns();
    for (int i = 0; i < ready; i++) receive(events[i].data.ptr);
  }
  double seconds = (now_ns() - began) / 1e9;
  qsort(ages_us, ages, sizeof *ages_us, by_age);
  printf("{\"frames\":%zu,\"seconds\":%.4f,\"p50_us\":%u,\"p99_us\":%u}\n", ages, seconds, quantile(0.5), quantile(0.99));
  fflush(stdout);
  for (;;) pause();
}
