/* What a program sees that touches a mapping of a file which is cut, punched, replaced or removed.
 *
 * usage: signalled FILE
 * It prints a line for each case: the byte that it read, or that it got SIGBUS. What is right is
 * what the kernel's own file systems do; the lines say nothing else.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

static sigjmp_buf back;

static void signalled(int number) {
  siglongjmp(back, number);
}

static void touch(const char *what, volatile char *at, int stores) {
  if (sigsetjmp(back, 1) != 0) {
    printf("%s: SIGBUS\n", what);
  } else if (stores) {
    *at = 'n';
    printf("%s: stored\n", what);
  } else {
    printf("%s: read %d\n", what, *at);
  }
}

static int fresh(const char *path) {
  char bytes[PAGES * PAGE];
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  memset(bytes, 'o', sizeof bytes);
  if (file < 0 || write(file, bytes, sizeof bytes) != sizeof bytes)
    exit(2);
  return file;
}

static char *map(int file) {
  char *mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED)
    exit(2);
  return mapped;
}

int main(int count, char **words) {
  if (count != 2)
    return 2;
  const char *path = words[1];
  char other[4096];
  snprintf(other, sizeof other, "%s.other", path);
  signal(SIGBUS, signalled);

  int file = fresh(path);
  char *mapped = map(file);
  touch("before the cut", mapped + 5 * PAGE, 0);
  if (ftruncate(file, 2 * PAGE + 100) != 0)
    return 2;
  touch("cut, in front", mapped + PAGE, 0);
  touch("cut, past the end in the last page", mapped + 2 * PAGE + 200, 0);
  touch("cut, read", mapped + 5 * PAGE, 0);
  touch("cut, stored", mapped + 6 * PAGE, 1);
  if (ftruncate(file, PAGES * PAGE) != 0)
    return 2;
  touch("grown again", mapped + 5 * PAGE, 0);
  if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * PAGE) != 0)
    return 2;
  touch("punched, read", mapped, 0);
  touch("punched, stored", mapped + PAGE, 1);
  touch("punched, beside", mapped + 2 * PAGE, 0);
  munmap(mapped, PAGES * PAGE);
  close(file);

  file = fresh(path);
  mapped = map(file);
  close(fresh(other));
  if (rename(other, path) != 0)
    return 2;
  touch("replaced", mapped + PAGE, 0);
  touch("replaced, stored", mapped + PAGE, 1);
  if (unlink(path) != 0)
    return 2;
  touch("removed", mapped + 3 * PAGE, 0);
  if (ftruncate(file, 0) != 0)
    return 2;
  touch("removed and cut", mapped + 3 * PAGE, 0);
  return 0;
}
