/* Stores through a shared mapping beside writes to the same pages: nothing of either may be lost.
 *
 * usage: beside FILE ROUNDS PAGES [punch]
 * In each round one thread stores a word of every page through the mapping while another writes
 * another word of it by pwrite, or punches
 * it out. Both words are then read through the mapping and by pread, and after
 * an fsync again. The exit status is 0 if all were found, 1 if some were lost, 2 if nothing could
 * be tried.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, STORED_AT = 64, WRITTEN_AT = 2048 };

static long pages;
static int file, punches;
static char *mapped;
static uint64_t round_now;
static pthread_barrier_t both;

static void give_up(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(2);
}

static uint64_t word_of(long page) {
  return round_now << 32 | (uint64_t)(page + 1);
}

/* What must be there in the end. */
static uint64_t expected(long page, int at) {
  return punches && at == WRITTEN_AT ? 0 : word_of(page);
}

static void write_word(long page) {
  uint64_t word = word_of(page);
  if (pwrite(file, &word, sizeof word, page * PAGE + WRITTEN_AT) != sizeof word)
    give_up("pwrite");
}

static void punch_word(long page) {
  int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(file, mode, page * PAGE + WRITTEN_AT, sizeof(uint64_t)) != 0)
    give_up("fallocate");
}

static void *store(void *unused) {
  pthread_barrier_wait(&both);
  for (long page = 0; page < pages; page++)
    *(volatile uint64_t *)(mapped + page * PAGE + STORED_AT) = word_of(page);
  return unused;
}

static void *write_beside(void *unused) {
  pthread_barrier_wait(&both);
  for (long page = 0; page < pages; page++)
    punches ? punch_word(page) : write_word(page);
  return unused;
}

/* Counts the words that are not there, and names the first. */
static long count_lost(const char *when) {
  long lost = 0;
  for (long page = 0; page < pages; page++) {
    for (int at = STORED_AT; at <= WRITTEN_AT; at += WRITTEN_AT - STORED_AT) {
      uint64_t word = 0, seen = *(volatile uint64_t *)(mapped + page * PAGE + at);
      if (pread(file, &word, sizeof word, page * PAGE + at) != sizeof word)
        give_up("pread");
      if (word == expected(page, at) && seen == word)
        continue;
      if (lost++ == 0)
        printf("round %llu, %s: page %ld lacks what was %s; read %llx, mapped %llx\n",
               (unsigned long long)round_now, when, page, at == STORED_AT ? "stored" : punches ? "punched" : "written",
               (unsigned long long)word, (unsigned long long)seen);
    }
  }
  return lost;
}

static long one_round(const char *path) {
  pthread_t storer, writer;
  file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ftruncate(file, pages * PAGE) != 0)
    give_up(path);
  for (long page = 0; punches && page < pages; page++)
    write_word(page);
  mapped = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED)
    give_up("mmap");
  pthread_create(&storer, NULL, store, NULL);
  pthread_create(&writer, NULL, write_beside, NULL);
  pthread_join(storer, NULL);
  pthread_join(writer, NULL);
  long lost = count_lost("at once");
  if (fsync(file) != 0)
    give_up("fsync");
  lost += count_lost("after fsync");
  munmap(mapped, pages * PAGE);
  close(file);
  return lost;
}

int main(int count, char **words) {
  if (count != 4 && count != 5)
    return 2;
  punches = count == 5 && strcmp(words[4], "punch") == 0;
  long rounds = atol(words[2]), lost = 0;
  pages = atol(words[3]);
  pthread_barrier_init(&both, NULL, 2);
  for (round_now = 1; round_now <= (uint64_t)rounds; round_now++)
    lost += one_round(words[1]);
  printf("%ld rounds of %ld pages: %ld words lost\n", rounds, pages, lost);
  return lost > 0;
}
