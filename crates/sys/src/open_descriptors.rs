//! What the descriptors of this process are of, as far as it tells whose pages a driver may hold.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FileType, Mode, OFlags, Stat};

/// Sockets that keep pages of the program: AF_RDS (memory registered for RDMA) and AF_XDP (its umem).
const HOLDING_SOCKETS: [libc::c_int; 2] = [21, 44];

/// Character devices that are known to hold no pages beyond a call: major numbers, all minors.
/// `mem` (null, zero, random, ...), old terminals, terminals, `/dev/tty` and `ptmx`, screens, input, sound, and terminals again.
const HARMLESS_MAJORS: [u32; 21] =
    [1, 2, 3, 4, 5, 7, 13, 14, 116, 136, 137, 138, 139, 140, 141, 142, 143, 166, 188, 204, 229];
/// Of major 10 (`misc`): watchdog, rtc, tun, cuse, uinput, hpet, fuse, btrfs-control, autofs, mapper, loop-control, uhid.
const HARMLESS_MISC: [u32; 12] = [130, 135, 200, 203, 223, 228, 229, 234, 235, 236, 237, 239];
const MISC: u32 = 10;
/// Others of `misc` have whatever number is free, and are known by name.
const HARMLESS_NAMES: [&[u8]; 1] = [b"/dev/userfaultfd"];

/// The descriptors of this process (`/proc/self/fd`).
#[derive(Debug)]
pub struct OpenDescriptors {
    folder: OwnedFd,
    /// Those that were open when it was looked last, in order.
    known: RefCell<Vec<RawFd>>,
}

impl OpenDescriptors {
    /// Those of the process that calls; a child needs its own.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        Ok(Self { folder, known: RefCell::new(Vec::new()) })
    }

    /// One of a device or socket through which a driver may hold pages of this process; `room`: none has so high a number
    /// (`FDSize` of `/proc/self/status`). Takes a quick system call for each descriptor. Devices that are mapped and no more
    /// open are missed.
    pub fn holder(&self, room: usize) -> Option<RawFd> {
        // How many are open (Linux 6.2); elsewhere all numbers are tried.
        let count = rustix::fs::fstat(&self.folder).map_or(0, |stat| stat.st_size as usize);
        let mut known = self.known.borrow_mut();
        if count > 0 && known.len() == count {
            // As many as before, and if all of those are open still, there are no others.
            let mut all_open = true;
            for number in known.iter() {
                match self.holds(*number) {
                    Some(true) => return Some(*number),
                    Some(false) => {}
                    None => all_open = false,
                }
            }
            if all_open {
                return None;
            }
        }
        known.clear();
        for number in 0..RawFd::try_from(room).unwrap_or(RawFd::MAX) {
            if count > 0 && known.len() == count {
                break;
            }
            match self.holds(number) {
                Some(true) => return Some(number),
                Some(false) => known.push(number),
                None => {}
            }
        }
        None
    }

    /// Whether a driver may hold pages through it; `None` if it is closed.
    fn holds(&self, number: RawFd) -> Option<bool> {
        // SAFETY: a number that may be closed at any time, and is only asked about: then the answer is `EBADF`.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let mut stat = rustix::fs::fstat(descriptor).ok()?;
        while !self.is_harmless(descriptor, &stat) {
            // Another thread may have closed it between the questions, which then had no answer, or one about something else.
            let again = rustix::fs::fstat(descriptor).ok()?;
            if (again.st_dev, again.st_ino) == (stat.st_dev, stat.st_ino) {
                return Some(true);
            }
            stat = again;
        }
        Some(false)
    }

    fn is_harmless(&self, descriptor: BorrowedFd<'_>, stat: &Stat) -> bool {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice => {
                is_harmless_device(rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
                    || self.is_harmless_name(descriptor.as_raw_fd())
            }
            FileType::Socket => is_harmless_socket(descriptor),
            _ => true,
        }
    }

    fn is_harmless_name(&self, number: RawFd) -> bool {
        let mut name = [0u8; 64];
        let mut digits = [0u8; 12];
        let Some(path) = digits_of(number, &mut digits) else { return false };
        // SAFETY: both buffers are locals of the lengths that the kernel is told.
        let length = unsafe {
            libc::readlinkat(self.folder.as_raw_fd(), path.as_ptr(), name.as_mut_ptr().cast(), name.len())
        };
        usize::try_from(length).is_ok_and(|length| HARMLESS_NAMES.contains(&&name[..length]))
    }
}

fn digits_of(number: RawFd, room: &mut [u8; 12]) -> Option<&std::ffi::CStr> {
    use std::io::Write;
    write!(&mut room[..], "{number}\0").ok()?;
    std::ffi::CStr::from_bytes_until_nul(room).ok()
}

fn is_harmless_device(major: u32, minor: u32) -> bool {
    HARMLESS_MAJORS.contains(&major) || (major == MISC && HARMLESS_MISC.contains(&minor))
}

fn is_harmless_socket(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_domain(socket)
        .is_ok_and(|family| !HOLDING_SOCKETS.contains(&libc::c_int::from(family.as_raw())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Tests that ask about all descriptors of the process, or open one that holds pages, come one after the other.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn devices_are_harmless_only_if_they_are_known_to_be() {
        for (major, minor) in [(1, 3), (1, 9), (5, 2), (136, 7), (10, 229), (10, 200), (13, 64)] {
            assert!(is_harmless_device(major, minor), "{major}:{minor}");
        }
        // nvidia, video, kvm, vfio, vhost-net, vhost-vsock, infiniband, dri, sev and udmabuf by numbers of their own.
        let holding = [(195, 0), (81, 0), (10, 232), (10, 196), (10, 238), (10, 241), (231, 192), (226, 128)];
        for (major, minor) in holding.into_iter().chain([(10, 125), (10, 260), (511, 0), (234, 1)]) {
            assert!(!is_harmless_device(major, minor), "{major}:{minor}");
        }
    }

    #[test]
    fn ordinary_descriptors_hold_nothing() {
        let _alone = alone();
        let descriptors = OpenDescriptors::open().unwrap();
        let _socket = std::os::unix::net::UnixStream::pair().unwrap();
        let _null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(descriptors.holder(1 << 16), None);
        assert_eq!(descriptors.holder(1 << 16), None);
    }

    #[test]
    fn sockets_that_another_thread_closes_meanwhile_hold_nothing() {
        let _alone = alone();
        let descriptors = OpenDescriptors::open().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _sockets = std::os::unix::net::UnixStream::pair().unwrap();
                }
            });
            let found = (0..20_000).find_map(|_| descriptors.holder(64));
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            found
        });
        assert_eq!(found, None);
    }

    #[test]
    fn one_that_takes_the_place_or_the_number_of_another_is_found() {
        let _alone = alone();
        // SAFETY: the call takes numbers, and nobody else has what it returns.
        let socket = unsafe {
            let raw = libc::socket(HOLDING_SOCKETS[1], libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            (raw >= 0).then(|| OwnedFd::from_raw_fd(raw))
        };
        let Some(socket) = socket else {
            println!("SKIPPED: a socket that holds pages: AF_XDP is refused here");
            return;
        };
        let descriptors = OpenDescriptors::open().unwrap();
        assert!(descriptors.holder(1 << 16).is_some());
        let number = socket.as_raw_fd();
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: both numbers are this test's; the socket is closed, and its number leads to something else.
        unsafe { libc::dup3(null.as_raw_fd(), number, libc::O_CLOEXEC) };
        assert_eq!(descriptors.holder(1 << 16), None);
        // SAFETY: as above, the other way round.
        unsafe {
            let raw = libc::socket(HOLDING_SOCKETS[1], libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            libc::dup3(raw, number, libc::O_CLOEXEC);
            libc::close(raw);
        }
        assert_eq!(descriptors.holder(1 << 16), Some(number));
    }

    #[test]
    fn numbers_become_the_names_of_their_links() {
        let descriptors = OpenDescriptors::open().unwrap();
        for number in [0, 9, 1234567] {
            let mut room = [0; 12];
            assert_eq!(digits_of(number, &mut room).unwrap().to_str().unwrap(), number.to_string());
        }
        assert!(!descriptors.is_harmless_name(descriptors.folder.as_raw_fd()));
    }
}
