// Functions of the C library that allocate inside and hand the block to the caller, small and
// large.
#define _GNU_SOURCE
#include <dirent.h>
#include <regex.h>
#include <wchar.h>

#include "support.h"

static void strings_are_duplicated(void) {
  char* text = malloc(KIB(100) + 1);
  CHECK(text != NULL);
  memset(text, 'q', KIB(100));
  text[KIB(100)] = 0;
  char* copy = strdup(text);
  char* part = strndup(text, KIB(80));
  char* small = strdup("small");
  CHECK(copy && part && small);
  CHECK(strcmp(copy, text) == 0 && strlen(part) == KIB(80) && strcmp(small, "small") == 0);
  wchar_t* wide = wcsdup(L"wide");
  CHECK(wide && wcscmp(wide, L"wide") == 0);
  free(text), free(copy), free(part), free(small), free(wide);
}

static void getline_grows_its_buffer(void) {
  FILE* file = tmpfile();
  CHECK(file != NULL);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 40000 * (i + 1); ++j)
      fputc('a' + i, file);
    fputc('\n', file);
  }
  rewind(file);
  char* line = NULL;
  size_t capacity = 0;
  for (int i = 0; i < 3; ++i) {
    const ssize_t length = getline(&line, &capacity, file);
    CHECK(length == 40000 * (i + 1) + 1 && line[0] == 'a' + i && line[length - 1] == '\n');
  }
  CHECK(getline(&line, &capacity, file) == -1);
  free(line);
  fclose(file);
}

static void memory_streams(void) {
  char* text = NULL;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  CHECK(stream != NULL);
  for (int i = 0; i < 30000; ++i)
    fprintf(stream, "%08d", i);
  fclose(stream);
  CHECK(size == 240000 && strncmp(text + 239992, "00029999", 8) == 0);
  free(text);
  wchar_t* wide = NULL;
  stream = open_wmemstream(&wide, &size);
  CHECK(stream != NULL);
  for (int i = 0; i < 30000; ++i)
    fputwc(L'w', stream);
  fclose(stream);
  CHECK(size == 30000 && wide[29999] == L'w');
  free(wide);
}

// glibc from 2.37 on lets the text grow by realloc, from a small block, which stays where it is.
enum { kPrintedServed = __GLIBC_PREREQ(2, 37) ? 0 : 1 };

static void printed_strings(void) {
  char* text = NULL;
  CHECK(asprintf(&text, "%0*d", 150000, 42) == 150000);
  CHECK(strcmp(text + 149998, "42") == 0);
  free(text);
  CHECK(asprintf(&text, "%s-%d", "short", 7) == 7);
  CHECK(strcmp(text, "short-7") == 0);
  free(text);
}

static int by_value(const void* left, const void* right) {
  const long a = *(const long*)left, b = *(const long*)right;
  return (a > b) - (a < b);
}

static void sorting_with_a_buffer(void) {
  enum { kCount = 40000 };
  long* values = malloc(kCount * sizeof *values);
  CHECK(values != NULL);
  for (long i = 0; i < kCount; ++i)
    values[i] = (i * 7919) % kCount;
  qsort(values, kCount, sizeof *values, by_value);
  for (long i = 0; i < kCount; ++i)
    CHECK(values[i] == i);
  free(values);
}

static void paths_and_directories(void) {
  char* path = realpath("/proc/self/../self", NULL);
  CHECK(path != NULL);
  free(path);
  char* where = getcwd(NULL, 0);
  CHECK(where != NULL);
  free(where);
  struct dirent** names = NULL;
  int count = scandir("/", &names, NULL, alphasort);
  CHECK(count > 2);
  while (count > 0)
    free(names[--count]);
  free(names);
}

static void regular_expressions(void) {
  regex_t pattern;
  CHECK(regcomp(&pattern, "^(a|b)*c[0-9]+$", REG_EXTENDED) == 0);
  CHECK(regexec(&pattern, "ababc123", 0, NULL, 0) == 0);
  CHECK(regexec(&pattern, "ababd", 0, NULL, 0) == REG_NOMATCH);
  regfree(&pattern);
}

static void stream_buffers(void) {
  FILE* file = tmpfile();
  CHECK(file != NULL);
  char* buffer = malloc(KIB(128));
  CHECK(buffer && setvbuf(file, buffer, _IOFBF, KIB(128)) == 0);
  for (int i = 0; i < 200000; ++i)
    putc('z', file);
  rewind(file);
  long read = 0;
  while (getc(file) == 'z')
    ++read;
  CHECK(read == 200000);
  fclose(file);
  free(buffer);
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(strings_are_duplicated, 3), CASE(getline_grows_its_buffer, 0),
      CASE(memory_streams, 0),         CASE(printed_strings, kPrintedServed),
      CASE(sorting_with_a_buffer, 1),  CASE(paths_and_directories, 0),
      CASE(regular_expressions, 0),    CASE(stream_buffers, 1),
  };
  return RUN_CASES(cases);
}
