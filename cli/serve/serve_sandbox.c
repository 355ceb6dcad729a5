#define _GNU_SOURCE /* O_PATH, syscall: POSIX has no sandbox */
#include "cli/serve/serve_start.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The interface of the kernel, by landlock(7); the calls have these numbers on all machines.
 * Headers of a distribution often lack what the kernel that runs the program has. */
enum {
    SYS_CREATE_RULESET = 444,
    SYS_ADD_RULE = 445,
    SYS_RESTRICT_SELF = 446,
    VERSION = 1, /* flag: return the version of the interface */
    PATH_BENEATH = 1,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_FILE = 1 << 8,
};

struct ruleset {
    uint64_t files, ports, scoped;
};

/* Everything that this version of the interface can deny. */
static struct ruleset everything(long version)
{
    unsigned n_files = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;

    return (struct ruleset){
        .files = (1u << n_files) - 1,
        .ports = version >= 4 ? 3 : 0,
        .scoped = version >= 6 ? 3 : 0,
    };
}

/* Allows the rights for a path and all that is below it. A path that does not exist needs none. */
static bool allow(int rules, const char *path, uint64_t rights)
{
    unsigned char rule[sizeof rights + sizeof(int)]; /* the kernel's structure has no padding */
    int fd = open(path, O_PATH | O_CLOEXEC);
    bool done;

    if (fd < 0) return errno == ENOENT || errno == EACCES || errno == ENOTDIR;
    memcpy(rule, &rights, sizeof rights);
    memcpy(rule + sizeof rights, &fd, sizeof fd);
    done = syscall(SYS_ADD_RULE, rules, PATH_BENEATH, rule, 0) == 0;
    close(fd);
    return done;
}

/* Allows rights for the folder of a file, since the file may be replaced. */
static bool allow_folder_of(int rules, const char *file, uint64_t rights)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s", file);
    return allow(rules, dirname(path), rights);
}

/* Allows reading a file, and the file that it is a link to. */
static bool allow_file(int rules, const char *file)
{
    char target[PATH_MAX];

    if (!allow_folder_of(rules, file, READ_FILE | READ_DIR)) return false;
    return realpath(file, target) == NULL || allow_folder_of(rules, target, READ_FILE | READ_DIR);
}

/* Allows reading an adapter: a file, or a folder whose files may be links. */
static bool allow_adapter(int rules, const char *path)
{
    char file[PATH_MAX];
    bool done = allow_file(rules, path);
    DIR *folder = opendir(path);

    if (folder == NULL) return done;
    for (const struct dirent *e = readdir(folder); e && done; e = readdir(folder)) {
        int n = snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && n > 0 && (size_t)n < sizeof file) done = allow_file(rules, file);
    }
    closedir(folder);
    return done;
}

/* Allows making, reading and removing the files of a folder; NULL: none. */
static bool allow_cache(int rules, const char *folder)
{
    return folder == NULL ||
           allow(rules, folder, READ_FILE | READ_DIR | WRITE_FILE | MAKE_FILE | REMOVE_FILE);
}

static bool add_rules(int rules, const struct sp_serve_paths *models,
                      const struct sp_serve_adapters *adapters, const char *prompt_cache,
                      const char *drafting_cache, const struct sp_listeners *listeners)
{
    /* memory that is free, CPUs, control groups; the standard files of --ranks */
    bool done = allow(rules, "/proc", READ_FILE | READ_DIR) &&
                allow(rules, "/sys", READ_FILE | READ_DIR) &&
                allow(rules, "/dev/null", READ_FILE | WRITE_FILE) &&
                allow_cache(rules, prompt_cache) && allow_cache(rules, drafting_cache);

    for (size_t i = 0; i < models->n && done; i++)
        done = allow_file(rules, models->at[i].path);
    for (size_t i = 0; i < adapters->n && done; i++)
        done = allow_adapter(rules, adapters->paths[i]);
    for (size_t i = 0; i < listeners->n && done; i++) {
        const char *path = listeners->at[i].path;
        done = path == NULL || allow_folder_of(rules, path, REMOVE_FILE);
    }
    return done;
}

enum sp_status sp_serve_sandbox_enter(const struct sp_serve_paths *models,
                                      const struct sp_serve_adapters *adapters,
                                      const char *prompt_cache, const char *drafting_cache,
                                      const struct sp_listeners *listeners, struct sp_err *err)
{
    long version = syscall(SYS_CREATE_RULESET, NULL, 0, VERSION);
    struct ruleset denied = everything(version);
    int rules;
    bool done;

    if (version < 1) return sp_fail(err, SP_E_UNSUPPORTED, "this kernel has no sandbox (Landlock)");
    tzset(); /* reads the time zone, which templates show */
    rules = (int)syscall(SYS_CREATE_RULESET, &denied, sizeof denied, 0);
    done = rules >= 0 &&
           add_rules(rules, models, adapters, prompt_cache, drafting_cache, listeners) &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_RESTRICT_SELF, rules, 0) == 0;
    if (!done) (void)!sp_fail(err, SP_E_IO, "the sandbox: %s", strerror(errno));
    if (rules >= 0) close(rules);
    return done ? SP_OK : SP_E_IO;
}
