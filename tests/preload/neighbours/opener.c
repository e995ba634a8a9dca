// Built with -DPLUGIN it opens a library that lies beside it, by its name alone; else it is the program, which opens the
// plugin at the path that it gets, deep where a second argument says so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef PLUGIN
int open_beside(void);
int open_beside(void) {
  return dlopen("libbeside.so", RTLD_NOW) != NULL;
}
#else
int main(int count, char** arguments) {
  for (int i = 0; i < 40; ++i)
    free(malloc(1 << 20));
  for (int i = 0; i < 2; ++i) {
    void* plugin = dlopen(arguments[1], RTLD_NOW | (count > 2 ? RTLD_DEEPBIND : 0));
    int (*open_beside)(void) = plugin != NULL ? (int (*)(void))dlsym(plugin, "open_beside") : NULL;
    printf("%s\n", open_beside == NULL ? "no plugin" : open_beside() ? "found" : "not found");
  }
  return 0;
}
#endif
