//! Adoption, giving back and fork where the kernel has only text to tell what is mapped (before Linux 6.11) and only the page
//! table's words to tell what holds data (before 6.7), as Debian 12's has: the same tests once more.

#![cfg(not(loom))]
// Each of the files is a program of its own, too, with what is common to all.
#![allow(clippy::duplicate_mod)]

#[path = "adoption.rs"]
mod adoption;
#[path = "adoption_alone.rs"]
mod adoption_alone;
#[path = "adoption_fork.rs"]
mod adoption_fork;
#[path = "adoption_short_of_memory.rs"]
mod adoption_short_of_memory;

/// `PROCMAP_QUERY` and `PAGEMAP_SCAN`.
const HIDDEN: [u32; 2] = [0xc068_6611, 0xc060_6610];

/// Runs before `main`, so that it holds for every thread.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = hide;

/// Answers those requests as kernels do that do not know them (`ENOTTY`).
extern "C" fn hide() {
    const SYSTEM_CALL: u32 = 0;
    const SECOND_ARGUMENT: u32 = 24;
    let load = |from| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: from };
    let unless = |value, skip| libc::sock_filter { code: 0x15, jt: 0, jf: skip, k: value };
    let end = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let refuse = end(libc::SECCOMP_RET_ERRNO | libc::ENOTTY as u32);
    let mut filter = [
        load(SYSTEM_CALL),
        unless(libc::SYS_ioctl as u32, 5),
        load(SECOND_ARGUMENT),
        unless(HIDDEN[0], 1),
        refuse,
        unless(HIDDEN[1], 1),
        refuse,
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is a local that the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn the_kernel_answers_no_such_question_here() {
    for request in HIDDEN {
        // SAFETY: no memory is named.
        let answer = unsafe { libc::ioctl(0, u64::from(request), 0) };
        assert_eq!((answer, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ENOTTY)));
    }
}
