/* Copyright: (c) 2026, GPU Fleet contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 *
 * A test double at the kernel's edge, preloaded into the programs of a lab node. Files of /proc can be mounted over
 * only where the kernel has them; one built without modules has no /proc/modules. A path of /proc that is written
 * below /opt/node/absent is opened there instead; every other path goes to the C library unchanged.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ABSENT "/opt/node/absent"

static const char *instead(const char *path, char *room, size_t size)
{
    if (path == NULL || strncmp(path, "/proc/", 6) != 0)
        return path;
    if ((size_t)snprintf(room, size, ABSENT "%s", path) >= size)
        return path;
    return syscall(SYS_faccessat, AT_FDCWD, room, F_OK) == 0 ? room : path;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENED(name)                                                 \
    int name(const char *path, int flags, ...)                       \
    {                                                                \
        char room[512];                                              \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode_t mode = va_arg(rest, mode_t);                          \
        va_end(rest);                                                \
        return REAL(name)(instead(path, room, sizeof room), flags, mode); \
    }
OPENED(open)
OPENED(open64)

#define OPENED_AT(name)                                              \
    int name(int folder, const char *path, int flags, ...)           \
    {                                                                \
        char room[512];                                              \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode_t mode = va_arg(rest, mode_t);                          \
        va_end(rest);                                                \
        return REAL(name)(folder, instead(path, room, sizeof room), flags, mode); \
    }
OPENED_AT(openat)
OPENED_AT(openat64)

FILE *fopen(const char *path, const char *mode)
{
    char room[512];
    return REAL(fopen)(instead(path, room, sizeof room), mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    char room[512];
    return REAL(fopen64)(instead(path, room, sizeof room), mode);
}

#define ASKED(name, type)                                            \
    int name(const char *path, type *found)                          \
    {                                                                \
        char room[512];                                              \
        return REAL(name)(instead(path, room, sizeof room), found);  \
    }
ASKED(stat, struct stat)
ASKED(stat64, struct stat64)
ASKED(lstat, struct stat)
ASKED(lstat64, struct stat64)

int access(const char *path, int mode)
{
    char room[512];
    return REAL(access)(instead(path, room, sizeof room), mode);
}
