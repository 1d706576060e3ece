//! Whose this process is.

#![allow(unsafe_code)]

/// Makes this process one of an ordinary user's, as if it had been that from the beginning.
///
/// # Panics
///
/// Unless it is root's.
pub fn become_user(user: u32) {
    // SAFETY: these calls change who this process is, all its threads, and touch no memory. The last takes back what the kernel
    // does to whoever changes its user.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(user, user, user), 0);
        assert_eq!(libc::setresuid(user, user, user), 0);
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}
