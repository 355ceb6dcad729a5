/* Runs a fuzz target without a fuzzer: `fuzz_replay json FILE...` over these files and all files of
 * the folders there. Any compiler can build it, so ctest replays the corpus everywhere. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef int fuzz_target(const uint8_t *data, size_t size);

/* CMake lists the targets in FUZZ_TARGETS, and renames LLVMFuzzerTestOneInput in each file. */
#define TARGET(name) fuzz_target fuzz_##name;
FUZZ_TARGETS
#undef TARGET

#define TARGET(name) {#name, fuzz_##name},
static const struct {
    const char *name;
    fuzz_target *run;
} targets[] = {FUZZ_TARGETS};
#undef TARGET

static int replay_file(fuzz_target *run, const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long size = -1;

    if (f != NULL && fseek(f, 0, SEEK_END) == 0) size = ftell(f);
    if (size >= 0) bytes = malloc(size ? (size_t)size : 1);
    if (bytes == NULL || fseek(f, 0, SEEK_SET) != 0 ||
        fread(bytes, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "%s: not readable\n", path);
        exit(2);
    }
    run(bytes, (size_t)size);
    free(bytes);
    fclose(f);
    return 1;
}

static int replay(fuzz_target *run, const char *path)
{
    struct stat info;
    struct dirent *e;
    char inner[1024];
    int n = 0;
    DIR *dir;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return replay_file(run, path);
    if ((dir = opendir(path)) == NULL) return 0;
    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        n += replay_file(run, inner);
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    fuzz_target *run = NULL;
    int n = 0;

    for (size_t i = 0; argc > 1 && i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, argv[1]) == 0) run = targets[i].run;
    if (run == NULL) {
        fprintf(stderr, "usage: %s TARGET FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        n += replay(run, argv[i]);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
