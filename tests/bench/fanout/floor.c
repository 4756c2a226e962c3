/* The floor of the fan-out benchmark: a server that does nothing but one write() for each frame and client.
 *
 * floor FRAMES PER_TURN INTERVAL_MS
 *
 * Prints its port; on SIGUSR2 it publishes FRAMES frames to all who have connected, PER_TURN every INTERVAL_MS by the
 * clock. It answers the load generator alone, whose key is always the same, and waits for whoever does not read.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CLIENTS = 4096, REQUEST = 4096, FRAME = 1024 };

static const char ANSWER[] =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/* What Turnwire sends. */
static const char DELTA[] =
    "{\"op\":\"mutation\",\"epoch\":\"epoch_0123456789abcdef01234567\",\"seq\":%ld,\"variant\":\"delta\","
    "\"mutation_id\":\"mut_0123456789abcdef01234567\",\"session_id\":\"ses_0123456789abcdef01234567\","
    "\"created_at\":1700000000000,\"type\":\"text\",\"message_id\":\"msg_0123456789abcdef\",\"revision\":%ld,"
    "\"part_id\":\"part_0123456789abcdef\",\"delta\":\"@@%lld@@ and more\"}";

static int clients[MOST_CLIENTS], connected;
static volatile sig_atomic_t told;

static void tell(int signal) {
  (void)signal;
  told = 1;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void write_all(int fd, const char *data, size_t length) {
  while (length) {
    ssize_t written = write(fd, data, length);
    if (written < 0) die("write");
    data += written;
    length -= written;
  }
}

static void greet(int fd) {
  char request[REQUEST + 1];
  size_t length = 0;
  do {
    ssize_t got = read(fd, request + length, REQUEST - length);
    if (got <= 0) die("handshake");
    length += got;
    request[length] = 0;
  } while (!strstr(request, "\r\n\r\n"));
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  write_all(fd, ANSWER, sizeof ANSWER - 1);
  clients[connected++] = fd;
}

static void publish(long number) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char frame[FRAME];
  int length = snprintf(frame + 4, FRAME - 4, DELTA, number, number, now.tv_sec * 1000000000LL + now.tv_nsec);
  frame[0] = (char)0x81;
  frame[1] = 126;
  frame[2] = length >> 8;
  frame[3] = length & 255;
  for (int i = 0; i < connected; i++) write_all(clients[i], frame, 4 + length);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  long frames = atol(argv[1]), per_turn = atol(argv[2]), interval_ns = atol(argv[3]) * 1000000;
  struct sigaction action = {.sa_handler = tell}; /* without SA_RESTART: it ends a waiting accept */
  sigaction(SIGUSR2, &action, NULL);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024)) die("listen");
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  while (!told) {
    int fd = accept(listener, NULL, NULL);
    if (fd >= 0 && connected < MOST_CLIENTS) greet(fd);
    else if (fd >= 0 || errno != EINTR) die("accept");
  }
  struct timespec due;
  clock_gettime(CLOCK_MONOTONIC, &due);
  for (long number = 1; number <= frames; number++) {
    publish(number);
    if (number % per_turn || !interval_ns) continue;
    due.tv_nsec += interval_ns;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) {}
  }
  for (;;) pause();
}
