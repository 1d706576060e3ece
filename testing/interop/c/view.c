// The files by which programs know a device, asked for by every call of the C library that takes a path: what is there, what is not
// there, what may not be done; and that all other paths are the kernel's, as they were.
//
// Usage: view FOLDER, where FOLDER is an empty folder that may be written to.

#include "harness.h"
#include "netlink.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

// In no header of programs'.
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *folder, const char *file, char *buffer, size_t size);

#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/nonic0"
#define PORT DEVICE "/ports/1"
#define NODE "/dev/infiniband/uverbs0"

// A call that fails with -1 and this errno.
#define REFUSED(id, sentence, call, wanted)                                                                         \
    do {                                                                                                            \
        errno = 0;                                                                                                  \
        long answer_ = (long)(call);                                                                                \
        int errno_ = errno;                                                                                         \
        verdict(answer_ == -1 && errno_ == (wanted), __LINE__, id, sentence);                                       \
        if (answer_ != -1 || errno_ != (wanted))                                                                    \
            printf(": %ld, %s instead of %s", answer_, strerror(errno_), strerror(wanted));                         \
        printf("\n");                                                                                               \
    } while (0)

static char text[4096];

// What can be read from a descriptor, which is closed.
static const char *all_of(int fd)
{
    memset(text, 0, sizeof(text));
    if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
        snprintf(text, sizeof(text), "errno %d", errno);
    if (fd >= 0)
        close(fd);
    return text;
}

static bool says(int fd, const char *wanted)
{
    bool same = !strcmp(all_of(fd), wanted);
    if (!same)
        printf("says \"%s\" and not \"%s\"\n", text, wanted);
    return same;
}

static bool lists(DIR *folder, const char *wanted)
{
    bool found = false;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        found |= !strcmp(entry->d_name, wanted);
    if (folder)
        closedir(folder);
    return found;
}

static void reading(void)
{
    const char *type = "1: CA\n";
    CHECK("VIEW", "open reads a file", says(open(DEVICE "/node_type", O_RDONLY), type));
    CHECK("VIEW", "open64 reads a file", says(open64(DEVICE "/node_type", O_RDONLY | O_CLOEXEC), type));
    CHECK("VIEW", "openat with an absolute path needs no folder", says(openat(-1, DEVICE "/node_type", O_RDONLY), type));
    CHECK("VIEW", "a path with needless slashes and dots is the same", says(open("//sys/./class/infiniband//nonic0/node_type", O_RDONLY), type));
    int root = open("/", O_RDONLY | O_DIRECTORY), class = open("/sys/class", O_RDONLY | O_DIRECTORY);
    CHECK("VIEW", "openat finds it below the root", says(openat(root, "sys/class/infiniband/nonic0/node_type", O_RDONLY), type));
    CHECK("VIEW", "openat64 finds it below /sys/class", says(openat64(class, "infiniband/nonic0/node_type", O_RDONLY), type));
    close(root), close(class);
    int device = open(DEVICE, O_RDONLY | O_DIRECTORY);
    CHECK("VIEW", "a folder can be opened", device >= 0);
    CHECK("VIEW", "what lies below an opened folder is found", says(openat(device, "ports/1/state", O_RDONLY), "4: ACTIVE\n"));
    CHECK("VIEW", "so is what lies beside it", says(openat(device, "../nonic0/node_type", O_RDONLY), type));
    CHECK("VIEW", "a counter below an opened folder says a number", isdigit(*all_of(openat(device, "ports/1/counters/port_xmit_data", O_RDONLY))));
    REFUSED("VIEW", "nothing can be made below an opened folder", openat(device, "new", O_WRONLY | O_CREAT, 0600), EACCES);
    close(device);
    FILE *stream = fopen(DEVICE "/node_type", "re");
    CHECK("VIEW", "fopen reads a file", stream && fgets(text, sizeof(text), stream) && !strcmp(text, type));
    CHECK("VIEW", "freopen reads another", (stream = freopen(PORT "/link_layer", "r", stream)) && fgets(text, sizeof(text), stream) &&
                                               !strcmp(text, "InfiniBand\n"));
    if (stream)
        fclose(stream);
    CHECK_NULL("VIEW", "fopen to write is refused", fopen(DEVICE "/node_desc", "w"), EACCES);
    CHECK_NULL("VIEW", "fopen of what is not there is refused", fopen(DEVICE "/nothing", "r"), ENOENT);
    errno = 77;
    close(open(DEVICE "/node_type", O_RDONLY));
    CHECK_EQ("VIEW", "a call that succeeds leaves errno alone", errno, 77);
    int plain = open(PORT "/counters/port_rcv_data", O_RDONLY), closing = open(PORT "/counters/port_rcv_data", O_RDONLY | O_CLOEXEC);
    CHECK("VIEW", "a counter's descriptor is closed by exec if that was asked for",
          fcntl(plain, F_GETFD) == 0 && fcntl(closing, F_GETFD) == FD_CLOEXEC);
    close(plain), close(closing);
    CHECK("VIEW", "a counter is opened by its path as any file", (plain = open(PORT "/counters/port_rcv_data", O_PATH)) >= 0);
    close(plain);
}

static void refusals(void)
{
    REFUSED("VIEW", "a file that is not there", open(DEVICE "/nothing", O_RDONLY), ENOENT);
    REFUSED("VIEW", "a device that is not there", open(CLASS "/nonic9/node_type", O_RDONLY), ENOENT);
    REFUSED("VIEW", "a path through a file", open(DEVICE "/node_type/x", O_RDONLY), ENOTDIR);
    REFUSED("VIEW", "writing", open(DEVICE "/node_desc", O_WRONLY), EACCES);
    REFUSED("VIEW", "reading and writing", open(DEVICE "/node_desc", O_RDWR), EACCES);
    REFUSED("VIEW", "cutting", open(DEVICE "/node_desc", O_RDONLY | O_TRUNC), EACCES);
    REFUSED("VIEW", "a counter to write", open(PORT "/counters/port_rcv_data", O_WRONLY), EACCES);
    REFUSED("VIEW", "writing to a folder", open(DEVICE, O_RDWR), EISDIR);
    REFUSED("VIEW", "making a file", open(DEVICE "/new", O_WRONLY | O_CREAT, 0600), EACCES);
    REFUSED("VIEW", "making one that is there", open(DEVICE "/node_type", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    REFUSED("VIEW", "creat", creat(DEVICE "/new", 0600), EACCES);
    REFUSED("VIEW", "mkdir", mkdir(DEVICE "/new", 0700), EACCES);
    REFUSED("VIEW", "mkdir of what is there", mkdir(CLASS, 0700), EEXIST);
    REFUSED("VIEW", "unlink", unlink(DEVICE "/node_type"), EACCES);
    REFUSED("VIEW", "unlink of what is not there", unlink(DEVICE "/nothing"), ENOENT);
    REFUSED("VIEW", "rmdir", rmdir(DEVICE "/ports"), EACCES);
    REFUSED("VIEW", "rename", rename(DEVICE "/node_type", DEVICE "/other"), EACCES);
    REFUSED("VIEW", "rename into it", rename("/etc/hostname", DEVICE "/other"), EACCES);
    REFUSED("VIEW", "symlink", symlink("/", DEVICE "/new"), EACCES);
    REFUSED("VIEW", "truncate", truncate(DEVICE "/node_desc", 0), EACCES);
    REFUSED("VIEW", "chmod", chmod(DEVICE "/node_desc", 0777), EPERM);
    REFUSED("VIEW", "chown", chown(DEVICE "/node_desc", getuid(), getgid()), EPERM);
    REFUSED("VIEW", "access to write", geteuid() ? access(DEVICE "/node_desc", W_OK) : (errno = EACCES, -1), EACCES);
    REFUSED("VIEW", "a file that is no link", readlink(DEVICE "/node_type", text, sizeof(text)), EINVAL);
    REFUSED("VIEW", "a name that is too long", open(strcat(strcpy((char[PATH_MAX + 300]){0}, DEVICE "/"), (char[300]){[0 ... 298] = 'a'}), O_RDONLY), ENAMETOOLONG);
    CHECK("VIEW", "and nothing has moved", says(open(DEVICE "/node_type", O_RDONLY), "1: CA\n") && access(DEVICE "/new", F_OK) < 0);
}

static void looking(void)
{
    struct stat by_stat, by_lstat, at;
    struct stat64 large;
    struct statx more;
    CHECK("VIEW", "stat says a file of root's that all may read", !stat(DEVICE "/node_type", &by_stat) && by_stat.st_mode == (S_IFREG | 0444) &&
                                                                      by_stat.st_uid == 0 && by_stat.st_size == 4096);
    CHECK("VIEW", "lstat says a link", !lstat(DEVICE, &by_lstat) && S_ISLNK(by_lstat.st_mode));
    CHECK("VIEW", "stat follows it to a folder", !stat64(DEVICE, &large) && large.st_mode == (S_IFDIR | 0755));
    CHECK("VIEW", "fstatat does as it is told", !fstatat(AT_FDCWD, DEVICE, &at, AT_SYMLINK_NOFOLLOW) && S_ISLNK(at.st_mode) &&
                                                    !fstatat(-1, DEVICE, &at, 0) && S_ISDIR(at.st_mode));
    CHECK("VIEW", "statx says the same", !statx(AT_FDCWD, DEVICE "/node_type", 0, STATX_BASIC_STATS, &more) && more.stx_mode == (S_IFREG | 0444) &&
                                             more.stx_size == 4096 && more.stx_uid == 0);
    CHECK("VIEW", "a node is a character device with the card's numbers", !stat(NODE, &by_stat) && by_stat.st_mode == (S_IFCHR | 0666) &&
                                                                              by_stat.st_rdev == makedev(231, 192));
    CHECK("VIEW", "and no link", !lstat(NODE, &by_lstat) && S_ISCHR(by_lstat.st_mode) && readlink(NODE, text, sizeof(text)) == -1 && errno == EINVAL);
    CHECK("VIEW", "which is what its class says", says(open("/sys/class/infiniband_verbs/uverbs0/dev", O_RDONLY), "231:192\n"));
    CHECK("VIEW", "it may be read and written", !access(NODE, R_OK | W_OK) && !euidaccess(NODE, R_OK | W_OK) && !faccessat(AT_FDCWD, NODE, W_OK, 0));
    int node = open(NODE, O_RDWR | O_CLOEXEC);
    CHECK("VIEW", "its descriptor does no harm: it ends, swallows, and knows no driver's call",
          node >= 0 && read(node, text, 1) == 0 && write(node, "x", 1) == 1 && ioctl(node, 0xc0181b01, text) == -1 && errno == ENOTTY);
    close(node);
    CHECK("VIEW", "so is the connection manager's, with numbers of its own", !stat("/dev/infiniband/rdma_cm", &by_stat) && by_stat.st_mode == (S_IFCHR | 0666) &&
                                                                                 by_stat.st_rdev == makedev(10, 58) && !access("/dev/infiniband/rdma_cm", R_OK | W_OK));
    CHECK("VIEW", "which statx tells, too", !statx(AT_FDCWD, "/dev/infiniband/rdma_cm", 0, STATX_BASIC_STATS, &more) && more.stx_rdev_major == 10 && more.stx_rdev_minor == 58);
    CHECK("VIEW", "and opens", (node = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC)) >= 0 && ioctl(node, 0xc0181b01, text) == -1 && errno == ENOTTY && !close(node));
    REFUSED("VIEW", "a node that is not there", open("/dev/infiniband/uverbs9", O_RDWR), ENOENT);
    REFUSED("VIEW", "nor can it be asked about", stat("/dev/infiniband/uverbs9", &by_stat), ENOENT);
    CHECK("VIEW", "access", !access(DEVICE "/node_type", R_OK) && access(DEVICE "/node_type", X_OK) && errno == EACCES);
    struct statfs system;
    CHECK("VIEW", "statfs", !statfs(DEVICE, &system));
    CHECK("VIEW", "extended attributes there are none, which ls -l asks",
          getxattr(DEVICE "/node_type", "system.posix_acl_access", text, 1) == -1 && errno != ENOENT && listxattr(DEVICE, NULL, 0) >= 0);
}

static void naming(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink(DEVICE, path, sizeof(path));
    CHECK("VIEW", "readlink", length > 0 && (path[length] = 0, !strcmp(path, "../../devices/platform/nonic.0/infiniband/nonic0")));
    CHECK("VIEW", "realpath leads to the device", realpath(DEVICE, path) && !strcmp(path, "/sys/devices/platform/nonic.0/infiniband/nonic0"));
    char *given = realpath(DEVICE "/device", NULL), *other = canonicalize_file_name(NODE);
    CHECK("VIEW", "realpath into memory of its own", given && !strcmp(given, "/sys/devices/platform/nonic.0"));
    CHECK("VIEW", "a node's path is its own", other && !strcmp(other, NODE));
    CHECK("VIEW", "what realpath says is there", says(open(strcat(strcpy(path, given ? given : ""), "/numa_node"), O_RDONLY), "-1\n"));
    free(given), free(other);
    CHECK_NULL("VIEW", "realpath of what is not there", realpath(DEVICE "/nothing", path), ENOENT);
    char before[PATH_MAX];
    REQUIRE(getcwd(before, sizeof(before)));
    CHECK("VIEW", "chdir goes there, and getcwd says so", !chdir(PORT "/gids") && getcwd(path, sizeof(path)) &&
                                                              !strcmp(path, "/sys/devices/platform/nonic.0/infiniband/nonic0/ports/1/gids"));
    CHECK("VIEW", "relative paths begin there", !access("0", R_OK) && !strncmp(all_of(open("../state", O_RDONLY)), "4: ACTIVE", 9));
    REFUSED("VIEW", "and lead to what may not be changed, either", unlink("0"), EACCES);
    struct stat one;
    CHECK("VIEW", "nor is it anybody else's", !stat("0", &one) && one.st_uid == 0);
    length = readlink("/proc/self/cwd", path, sizeof(path) - 1);
    CHECK("VIEW", "the kernel's own link there says so, too", length > 0 && (path[length] = 0, !strcmp(path, "/sys/devices/platform/nonic.0/infiniband/nonic0/ports/1/gids")));
    REQUIRE(!chdir(before));
}

static int named(const struct dirent *entry) { return *entry->d_name != '.'; }

static void listing(void)
{
    CHECK("VIEW", "opendir", lists(opendir(CLASS), "nonic0") && lists(opendir(PORT), "gid_attrs") && lists(opendir("/dev/infiniband"), "uverbs0") && lists(opendir("/dev/infiniband"), "rdma_cm"));
    struct dirent **found;
    int count = scandir(PORT "/gids", &found, named, alphasort);
    CHECK_EQ("VIEW", "scandir finds as many GIDs as the table has", count, 64);
    for (int i = 0; i < count; i++)
        free(found[i]);
    if (count >= 0)
        free(found);
    glob_t paths;
    CHECK("VIEW", "glob names what it finds as it was asked", !glob(CLASS "/*/ports/*/state", 0, NULL, &paths) && paths.gl_pathc == 1 &&
                                                                  !strcmp(paths.gl_pathv[0], PORT "/state"));
    globfree(&paths);
    CHECK("VIEW", "an opened folder is listed", lists(fdopendir(open(DEVICE, O_RDONLY | O_DIRECTORY)), "ports"));
}

// What the calls of libibverbs say.
static void truth(void)
{
    char path[512], wanted[256];
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    REQUIRE(list && count == 1);
    struct ibv_context *context = ibv_open_device(list[0]);
    REQUIRE(context);
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    REQUIRE(!ibv_query_device(context, &device) && !ibv_query_port(context, 1, &port));
    snprintf(path, sizeof(path), "%s/class/infiniband", ibv_get_sysfs_path());
    CHECK("VIEW", "ibv_get_sysfs_path leads there", lists(opendir(path), ibv_get_device_name(list[0])));
    snprintf(path, sizeof(path), "%s/fw_ver", list[0]->ibdev_path);
    snprintf(wanted, sizeof(wanted), "%s\n", device.fw_ver);
    CHECK("VIEW", "ibdev_path does, and the firmware is the same", says(open(path, O_RDONLY), wanted));
    CHECK("VIEW", "ibv_read_sysfs_file reads there", ibv_read_sysfs_file(list[0]->ibdev_path, "board_id", path, sizeof(path)) == 5 && !strcmp(path, "nonic"));
    snprintf(path, sizeof(path), "%s/ibdev", list[0]->dev_path);
    snprintf(wanted, sizeof(wanted), "%s\n", list[0]->name);
    CHECK("VIEW", "dev_path leads to its name", says(open(path, O_RDONLY), wanted));
    uint16_t *guid = (uint16_t *)&device.node_guid;
    snprintf(wanted, sizeof(wanted), "%04x:%04x:%04x:%04x\n", ntohs(guid[0]), ntohs(guid[1]), ntohs(guid[2]), ntohs(guid[3]));
    CHECK("VIEW", "the GUID is the same", says(open(DEVICE "/node_guid", O_RDONLY), wanted) && says(open(DEVICE "/sys_image_guid", O_RDONLY), wanted));
    snprintf(wanted, sizeof(wanted), "0x%x\n", port.lid);
    CHECK("VIEW", "the LID is the same", says(open(PORT "/lid", O_RDONLY), wanted));
    snprintf(wanted, sizeof(wanted), "0x%08x\n", port.port_cap_flags);
    CHECK("VIEW", "what the port can is the same", says(open(PORT "/cap_mask", O_RDONLY), wanted));
    bool gids = true, kinds = true;
    for (int i = 0; i < port.gid_tbl_len; i++) {
        union ibv_gid gid;
        gids = gids && !ibv_query_gid(context, 1, i, &gid);
        for (int word = 0; word < 8; word++)
            sprintf(wanted + 5 * word, "%02x%02x%c", gid.raw[2 * word], gid.raw[2 * word + 1], word == 7 ? '\n' : ':');
        snprintf(path, sizeof(path), PORT "/gids/%d", i);
        gids = gids && says(open(path, O_RDONLY), wanted);
        struct ibv_gid_entry entry;
        bool valid = !ibv_query_gid_ex(context, 1, i, &entry, 0);
        snprintf(path, sizeof(path), PORT "/gid_attrs/types/%d", i);
        kinds = kinds && valid == !access(path, R_OK);
    }
    CHECK("VIEW", "all GIDs are the same", gids);
    CHECK("VIEW", "and have kinds where they are valid", kinds);
    struct stat net;
    CHECK("VIEW", "the device lies under a network interface that is there", lists(opendir(DEVICE "/device/net"), "lo") || !stat(DEVICE "/device/net", &net));
    ibv_close_device(context);
    ibv_free_device_list(list);
}

static void children(void)
{
    pid_t child = fork();
    if (!child)
        _exit(says(open(DEVICE "/node_type", O_RDONLY), "1: CA\n") && lists(opendir(PORT), "gids") ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ("VIEW", "a forked child sees them", status, 0);
    child = vfork();
    if (!child) {
        int fd = open(DEVICE "/node_type", O_RDONLY);
        _exit(fd >= 0 && read(fd, text, 5) == 5 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK_EQ("VIEW", "so does one of vfork", status, 0);
    CHECK("VIEW", "the parent still does", says(open(DEVICE "/node_type", O_RDONLY), "1: CA\n"));
    char command[] = "cat " DEVICE "/node_type | grep -q CA && cd " PORT " && test -r state && cat counters/port_xmit_data >/dev/null";
    CHECK_EQ("VIEW", "a shell and what it starts do", system(command), 0);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    CHECK("VIEW", "a program that closes all descriptors still does", says(open(DEVICE "/node_type", O_RDONLY), "1: CA\n"));
}

static void *reader(void *unused)
{
    for (int i = 0; i < 300; i++) {
        char state[32] = "";
        int fd = open(PORT "/state", O_RDONLY);
        if (fd < 0 || read(fd, state, sizeof(state) - 1) != 10 || strcmp(state, "4: ACTIVE\n") || close(fd))
            return "wrong";
    }
    return unused;
}

static void threads(void)
{
    pthread_t thread[4];
    bool good = true;
    for (int i = 0; i < 4; i++)
        REQUIRE(!pthread_create(&thread[i], NULL, reader, NULL));
    for (int i = 0; i < 4; i++) {
        void *answer;
        good &= !pthread_join(thread[i], &answer) && !answer;
    }
    CHECK("VIEW", "threads that read at once all do", good);
}

// Everything else is the kernel's.
static void outside(const char *folder)
{
    REQUIRE(!chdir(folder));
    const char *volatile nowhere = NULL;
    struct stat one;
    REFUSED("VIEW", "NULL is the kernel's to refuse", open(nowhere, O_RDONLY), EFAULT);
    REFUSED("VIEW", "by every call", stat(nowhere, &one), EFAULT);
    REFUSED("VIEW", "an empty path leads nowhere", open("", O_RDONLY), ENOENT);
    int fd = open("infiniband", O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK("VIEW", "a file of that name elsewhere is made with its mode", fd >= 0 && !fstat(fd, &one) && (one.st_mode & 0777) == 0640);
    CHECK("VIEW", "and written", write(fd, "mine", 4) == 4 && !close(fd) && says(open("./infiniband", O_RDONLY), "mine"));
    CHECK("VIEW", "and changed", !chmod("infiniband", 0600) && !stat("infiniband", &one) && (one.st_mode & 0777) == 0600 && one.st_uid == geteuid() &&
                                     one.st_size == 4);
    CHECK("VIEW", "and renamed, linked, cut and taken away", !rename("infiniband", "nonic.0") && !symlink("nonic.0", "infiniband") &&
                                                                 !truncate("infiniband", 1) && !stat("nonic.0", &one) && one.st_size == 1 &&
                                                                 !unlink("infiniband") && !unlink("nonic.0"));
    CHECK("VIEW", "folders, too", !mkdir("infiniband", 0700) && !rmdir("infiniband"));
    fd = open(".", O_RDWR | O_TMPFILE, 0600);
    CHECK("VIEW", "a file without a name has its mode", fd < 0 || (!fstat(fd, &one) && (one.st_mode & 0777) == 0600));
    if (fd >= 0)
        close(fd);
    CHECK("VIEW", "classes beside it are the kernel's", access("/sys/class/infiniband_of_mine", F_OK) == -1 && errno == ENOENT && !access("/sys/class/net", R_OK));
    CHECK("VIEW", "so is the folder above", !lists(opendir("/sys/class"), "nonic0"));
    char path[PATH_MAX];
    CHECK("VIEW", "paths are what they were", realpath("/proc/self/../self/exe", path) && getcwd(path, sizeof(path)) && !strcmp(path, folder));
    errno = 77;
    CHECK("VIEW", "errno is left alone", !access("/", R_OK) && errno == 77);
}

int main(int count, char **words)
{
    if (count != 2) {
        fprintf(stderr, "usage: view FOLDER\n");
        return 2;
    }
    self.active = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    reading();
    refusals();
    looking();
    naming();
    listing();
    truth();
    asking_by_netlink();
    threads();
    outside(words[1]);
    children();
    printf("%d passed, %d failed\n", self.passed, self.failed);
    return self.failed ? 1 : 0;
}
