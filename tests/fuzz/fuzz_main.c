/* Runs a fuzz target without a fuzzer over the files on the command line and all files of the
 * folders there. Options such as -runs=0 are for libFuzzer's own driver and are ignored. Any
 * compiler can build it, so ctest replays the corpus everywhere. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
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
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    fclose(f);
    return 1;
}

static int replay(const char *path)
{
    struct stat info;
    struct dirent *e;
    char inner[1024];
    int n = 0;
    DIR *dir;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return replay_file(path);
    if ((dir = opendir(path)) == NULL) return 0;
    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        n += replay_file(inner);
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++)
        n += argv[i][0] == '-' ? 0 : replay(argv[i]);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
