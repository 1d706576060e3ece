//! The functions behind these: the C library's, or those of a library between.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{DIR, FILE, dirent, dirent64, glob_t, mode_t, msghdr, sockaddr, socklen_t, ssize_t};

/// The C library's structures whose functions have the same names.
pub(crate) type Stat = libc::stat;
pub(crate) type Stat64 = libc::stat64;
pub(crate) type StatX = libc::statx;
pub(crate) type StatFs = libc::statfs;
pub(crate) type StatFs64 = libc::statfs64;
pub(crate) type StatVfs = libc::statvfs;
pub(crate) type StatVfs64 = libc::statvfs64;

/// What chooses entries of a folder, and what orders them.
pub(crate) type Choose = Option<unsafe extern "C-unwind" fn(*const dirent) -> c_int>;
pub(crate) type Order = Option<unsafe extern "C-unwind" fn(*mut *const dirent, *mut *const dirent) -> c_int>;
pub(crate) type Choose64 = Option<unsafe extern "C-unwind" fn(*const dirent64) -> c_int>;
pub(crate) type Order64 =
    Option<unsafe extern "C-unwind" fn(*mut *const dirent64, *mut *const dirent64) -> c_int>;
/// What is told of folders that a pattern cannot look into.
pub(crate) type Told = Option<unsafe extern "C-unwind" fn(*const c_char, c_int) -> c_int>;

// The last argument of the first four is there if the flags say so; what takes it looks at it then only.
nonic_neighbour::next! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    creat(path: *const c_char, mode: mode_t) -> c_int;
    creat64(path: *const c_char, mode: mode_t) -> c_int;
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    stat(path: *const c_char, out: *mut Stat) -> c_int;
    stat64(path: *const c_char, out: *mut Stat64) -> c_int;
    lstat(path: *const c_char, out: *mut Stat) -> c_int;
    lstat64(path: *const c_char, out: *mut Stat64) -> c_int;
    fstatat(folder: c_int, path: *const c_char, out: *mut Stat, flags: c_int) -> c_int;
    fstatat64(folder: c_int, path: *const c_char, out: *mut Stat64, flags: c_int) -> c_int;
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut StatX) -> c_int;
    statfs(path: *const c_char, out: *mut StatFs) -> c_int;
    statfs64(path: *const c_char, out: *mut StatFs64) -> c_int;
    statvfs(path: *const c_char, out: *mut StatVfs) -> c_int;
    statvfs64(path: *const c_char, out: *mut StatVfs64) -> c_int;
    access(path: *const c_char, mode: c_int) -> c_int;
    euidaccess(path: *const c_char, mode: c_int) -> c_int;
    eaccess(path: *const c_char, mode: c_int) -> c_int;
    faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    getxattr(path: *const c_char, name: *const c_char, out: *mut c_void, room: usize) -> ssize_t;
    lgetxattr(path: *const c_char, name: *const c_char, out: *mut c_void, room: usize) -> ssize_t;
    listxattr(path: *const c_char, out: *mut c_char, room: usize) -> ssize_t;
    llistxattr(path: *const c_char, out: *mut c_char, room: usize) -> ssize_t;
    pathconf(path: *const c_char, name: c_int) -> c_long;
    inotify_add_watch(number: c_int, path: *const c_char, mask: u32) -> c_int;
    readlink(path: *const c_char, out: *mut c_char, room: usize) -> ssize_t;
    readlinkat(folder: c_int, path: *const c_char, out: *mut c_char, room: usize) -> ssize_t;
    realpath(path: *const c_char, out: *mut c_char) -> *mut c_char;
    getcwd(out: *mut c_char, room: usize) -> *mut c_char;
    chdir(path: *const c_char) -> c_int;
    opendir(path: *const c_char) -> *mut DIR;
    scandir(path: *const c_char, out: *mut *mut *mut dirent, choose: Choose, order: Order) -> c_int;
    scandir64(path: *const c_char, out: *mut *mut *mut dirent64, choose: Choose64, order: Order64) -> c_int;
    scandirat(
        folder: c_int, path: *const c_char, out: *mut *mut *mut dirent, choose: Choose, order: Order
    ) -> c_int;
    scandirat64(
        folder: c_int, path: *const c_char, out: *mut *mut *mut dirent64, choose: Choose64, order: Order64
    ) -> c_int;
    glob(pattern: *const c_char, flags: c_int, told: Told, out: *mut glob_t) -> c_int;
    glob64(pattern: *const c_char, flags: c_int, told: Told, out: *mut glob_t) -> c_int;
    execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    execvp(path: *const c_char, arguments: *const *const c_char) -> c_int;
    execvpe(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    unlink(path: *const c_char) -> c_int;
    unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    rmdir(path: *const c_char) -> c_int;
    remove(path: *const c_char) -> c_int;
    mkdir(path: *const c_char, mode: mode_t) -> c_int;
    mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int;
    rename(from: *const c_char, to: *const c_char) -> c_int;
    renameat(from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char) -> c_int;
    renameat2(from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char, flags: c_uint) -> c_int;
    symlink(target: *const c_char, path: *const c_char) -> c_int;
    symlinkat(target: *const c_char, folder: c_int, path: *const c_char) -> c_int;
    truncate(path: *const c_char, length: i64) -> c_int;
    truncate64(path: *const c_char, length: i64) -> c_int;
    chmod(path: *const c_char, mode: mode_t) -> c_int;
    fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int;
    chown(path: *const c_char, user: c_uint, group: c_uint) -> c_int;
    lchown(path: *const c_char, user: c_uint, group: c_uint) -> c_int;
    fchownat(folder: c_int, path: *const c_char, user: c_uint, group: c_uint, flags: c_int) -> c_int;
    utimensat(folder: c_int, path: *const c_char, times: *const c_void, flags: c_int) -> c_int;
    mknod(path: *const c_char, mode: mode_t, device: u64) -> c_int;
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    send(number: c_int, buffer: *const c_void, count: usize, flags: c_int) -> ssize_t;
    sendto(
        number: c_int, buffer: *const c_void, count: usize, flags: c_int, address: *const sockaddr, length: socklen_t
    ) -> ssize_t;
    sendmsg(number: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
}

/// The next `_exit`.
///
/// # Safety
/// As in C.
pub(crate) unsafe fn _exit(status: c_int) -> ! {
    static NEXT: nonic_neighbour::Next = nonic_neighbour::Next::new(c"_exit");
    let found = NEXT.address();
    if !found.is_null() {
        // SAFETY: the C library's function of this name is of this type.
        let function: unsafe extern "C" fn(c_int) -> ! = unsafe { core::mem::transmute(found) };
        // SAFETY: as in C.
        unsafe { function(status) }
    }
    loop {
        // SAFETY: as in C; the process does not come back.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

pub(crate) use _exit as _Exit;
