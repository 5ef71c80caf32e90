/* What a program sees that touches a mapping of a file whose disk fails, and works again.
 *
 * usage: failed FILE
 * FILE is 64 MiB long. After each part a line "ready" is printed and a line of the input waited for:
 * the disk is to fail after the first part, and to work again after the second one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, LENGTH = 64 * MIB };

static sigjmp_buf back;

static void signalled(int number, siginfo_t *told, void *context) {
  (void)number;
  (void)context;
  siglongjmp(back, 1 + told->si_code);
}

static void touch(const char *what, volatile char *at, int stores) {
  int code = sigsetjmp(back, 1);
  if (code != 0) {
    printf("%s: SIGBUS %d\n", what, code - 1);
  } else if (stores) {
    *at = 'n';
    printf("%s: stored\n", what);
  } else {
    printf("%s: read %d\n", what, *at);
  }
}

static void told(const char *what, long result) {
  printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void pass(void) {
  char line[16];
  puts("ready");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    exit(1);
}

int main(int count, char **arguments) {
  struct sigaction action = {.sa_sigaction = signalled, .sa_flags = SA_SIGINFO};
  int file = count > 1 ? open(arguments[1], O_RDWR) : -1;
  char *mapped = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  char byte;
  if (mapped == MAP_FAILED || sigaction(SIGBUS, &action, NULL) != 0)
    return 1;
  madvise(mapped, LENGTH, MADV_RANDOM);
  touch("a page", mapped, 0);
  touch("another page", mapped + PAGE, 1);
  pass();
  touch("a page that cannot be read", mapped + 50 * MIB, 0);
  touch("one that cannot be read, stored to", mapped + 55 * MIB, 1);
  touch("a page that was read before", mapped, 0);
  touch("one that was stored to before", mapped + PAGE, 1);
  told("a read", pread(file, &byte, 1, 60 * MIB));
  told("msync", msync(mapped, LENGTH, MS_SYNC));
  told("fsync", fsync(file));
  pass();
  touch("a page that can be read again", mapped + 50 * MIB, 0);
  touch("one that can be read again, stored to", mapped + 55 * MIB, 1);
  told("fsync", fsync(file));
  pass();
  return 0;
}
