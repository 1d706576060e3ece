//! System calls that have no safe wrapper elsewhere. Each function here is safe to call with any argument.

use std::ffi::{CStr, CString, c_void};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Reads eight bytes of another process, without its help.
pub(crate) fn read_process(pid: u32, address: usize) -> io::Result<u64> {
    let mut value = 0_u64;
    let local = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: 8 };
    // SAFETY: the kernel writes at most eight bytes to `value`, which outlives the call; it checks the remote side.
    let copied = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole(copied).map(|()| value)
}

/// Writes eight bytes into another process, without its help.
pub(crate) fn write_process(pid: u32, address: usize, value: u64) -> io::Result<()> {
    assert_ne!(
        pid,
        std::process::id(),
        "a write into this process would go behind the back of its references"
    );
    let local = libc::iovec { iov_base: (&raw const value).cast_mut().cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: 8 };
    // SAFETY: the kernel reads eight bytes of `value`, which outlives the call; the memory written is another
    // process's (asserted above), so no reference of this one is touched.
    let copied = unsafe { libc::process_vm_writev(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole(copied)
}

fn whole(copied: isize) -> io::Result<()> {
    match copied {
        8 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
        part => Err(io::Error::other(format!("only {part} of 8 bytes were copied"))),
    }
}

/// Asks the kernel about the mapping that holds `address`, by the ioctl that Linux 6.11 brought.
pub(crate) fn query_mapping(maps: &std::fs::File, address: usize) -> io::Result<()> {
    /// `struct procmap_query` of `linux/fs.h`: sizes and flags in, what was found out.
    #[repr(C)]
    struct ProcmapQuery {
        size: u64,
        query_flags: u64,
        query_address: u64,
        found: [u64; 6],
        device_and_name_sizes: [u32; 4],
        name_and_build_id_addresses: [u64; 2],
    }
    const _: () = assert!(size_of::<ProcmapQuery>() == 104);
    const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611; // _IOWR('f', 17, struct procmap_query)
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_flags: 0,
        query_address: address as u64,
        found: [0; 6],
        device_and_name_sizes: [0; 4],
        name_and_build_id_addresses: [0; 2],
    };
    // SAFETY: the number carries the size of the structure (asserted above), so the kernel reads and writes within
    // `query`; the name and build id buffers have size 0 and are not touched.
    match unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the program be killed when the thread that starts it ends, however that happens.
pub(crate) fn end_with_parent(command: &mut Command) {
    let ask = || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        Ok(())
    };
    // SAFETY: one system call, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

/// One address of one network interface.
#[derive(Debug)]
pub(crate) struct InterfaceAddress {
    /// Name of the interface.
    pub(crate) interface: String,
    /// The address.
    pub(crate) address: IpAddr,
    /// Whether the interface is up.
    pub(crate) up: bool,
}

/// Addresses of all interfaces of this network namespace.
pub(crate) fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is a valid place for the head of the list.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut next = first;
    // SAFETY: the list is this function's until freeifaddrs; its links are valid or null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: a non-null ifa_addr points to as many bytes as its family has.
        let Some(address) = (unsafe { ip_address(entry.ifa_addr) }) else { continue };
        // SAFETY: ifa_name is a C string that lives as long as the list.
        let interface = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        addresses.push(InterfaceAddress { interface, address, up });
    }
    // SAFETY: `first` came from getifaddrs, is freed once, and nothing above kept a reference into the list.
    unsafe { libc::freeifaddrs(first) };
    Ok(addresses)
}

/// The IP address behind a socket address, if it is one.
///
/// # Safety
/// `address` is null or points to a socket address of the size its family says.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null or valid, by the caller's word.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in; unaligned because sockaddr asks for less.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a sockaddr_in6; unaligned because sockaddr asks for less.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Why a C library cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The dynamic loader refused.
    #[error("the library cannot be loaded: {0}")]
    Open(String),
    /// A function is missing, or has another version.
    #[error("the library has no {name}")]
    Symbol {
        /// Its name, `@`, and its version.
        name: String,
    },
}

/// A C library, loaded until the process ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedLibrary(*mut c_void);

impl LoadedLibrary {
    /// Loads the library at that path, resolving all its symbols now.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        Self::load(path, libc::RTLD_LOCAL)
    }

    /// The same, and lets libraries that are loaded later use its functions.
    pub(crate) fn open_for_all(path: &Path) -> Result<Self, LoadError> {
        Self::load(path, libc::RTLD_GLOBAL)
    }

    fn load(path: &Path, scope: i32) -> Result<Self, LoadError> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| LoadError::Open("a NUL in its path".to_owned()))?;
        // SAFETY: `name` is a C string; constructors of the library run here, as they do in every program that links it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | scope) };
        if handle.is_null() { Err(LoadError::Open(loader_message())) } else { Ok(Self(handle)) }
    }

    /// Where the function of that name and exact version is.
    pub(crate) fn symbol(self, name: &CStr, version: &CStr) -> Result<*mut c_void, LoadError> {
        // SAFETY: the handle came from dlopen and is never closed; both names are C strings.
        let address = unsafe { libc::dlvsym(self.0, name.as_ptr(), version.as_ptr()) };
        if address.is_null() {
            let (name, version) = (name.to_string_lossy(), version.to_string_lossy());
            Err(LoadError::Symbol { name: format!("{name}@{version}") })
        } else {
            Ok(address)
        }
    }

    /// Whether it has anything of that name, in any version.
    pub(crate) fn has(self, name: &CStr) -> bool {
        // SAFETY: the handle came from dlopen and is never closed; the name is a C string.
        !unsafe { libc::dlsym(self.0, name.as_ptr()) }.is_null()
    }
}

fn loader_message() -> String {
    // SAFETY: this thread is the only one that uses the loader here, so the message stays until the next call.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: a message of dlerror is a C string.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_is_an_error_and_not_a_value() {
        assert!(read_process(u32::MAX / 2, 0x1000).is_err());
        assert!(write_process(u32::MAX / 2, 0x1000, 1).is_err());
    }

    #[test]
    fn interfaces_can_be_listed() {
        assert!(interface_addresses().is_ok());
    }
}
