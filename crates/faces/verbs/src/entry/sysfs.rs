//! The kernel's description of devices, for programs that read it through this library.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::errno::Errno;
use crate::guard;

versions! {
    nonic_ibv_get_sysfs_path => "ibv_get_sysfs_path@@IBVERBS_1.0";
    nonic_ibv_read_sysfs_file => "ibv_read_sysfs_file@@IBVERBS_1.0";
    nonic_ibv_read_ibdev_sysfs_file =>
        "ibv_read_ibdev_sysfs_file@@IBVERBS_PRIVATE_34",
        "ibv_read_ibdev_sysfs_file@IBVERBS_PRIVATE_57",
        "ibv_read_ibdev_sysfs_file@IBVERBS_PRIVATE_59",
        "ibv_read_ibdev_sysfs_file@IBVERBS_PRIVATE_64";
}

/// Where sysfs is: `SYSFS_PATH` without its last slashes, `/sys` if it is unset or the program runs with more
/// rights than who started it.
fn root() -> &'static CStr {
    static ROOT: OnceLock<CString> = OnceLock::new();
    ROOT.get_or_init(|| {
        // SAFETY: getauxval only reads what the kernel handed this process.
        let raised_rights = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        let Some(given) = std::env::var_os("SYSFS_PATH").filter(|_| !raised_rights) else {
            return c"/sys".to_owned();
        };
        let given = given.as_bytes();
        let kept = given.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        CString::new(&given[..kept]).unwrap_or_default()
    })
}

/// [`root`] as text, for the paths in `ibv_device`.
pub(super) fn sysfs_root() -> String {
    root().to_string_lossy().into_owned()
}

/// Where sysfs is mounted, a static text.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_get_sysfs_path() -> *const c_char {
    root().as_ptr()
}

/// Reads a file into `out`, drops one line end and adds a NUL if there is room; how many bytes it had.
fn read_text(path: &Path, out: &mut [u8]) -> Result<c_int, Errno> {
    let mut file = File::open(path)?;
    let mut length = file.read(out)?;
    if length > 0 && out[length - 1] == b'\n' {
        length -= 1;
    }
    if let Some(end) = out.get_mut(length) {
        *end = 0;
    }
    Ok(crate::convert::int(length))
}

/// Reads `directory/file`: how many bytes, without the line end; -1 with the errno of opening or reading.
///
/// # Safety
/// `directory` and `file` are C strings, `out` is writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    out: *mut c_char,
    size: usize,
) -> c_int {
    guard::or_minus_one(|| {
        // SAFETY: the caller's promises. The buffer may hold anything, so it is cleared before a slice is
        // made of it.
        let (directory, file, out) = unsafe {
            out.write_bytes(0, size);
            (
                CStr::from_ptr(directory),
                CStr::from_ptr(file),
                core::slice::from_raw_parts_mut(out.cast::<u8>(), size),
            )
        };
        let path =
            Path::new(OsStr::from_bytes(directory.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
        read_text(&path, out)
    })
}

/// Reads a file of a kernel device, named by a format and up to two arguments, as providers do. `device` is a
/// structure of the kernel devices this library does not have, so nobody can hold one: -1 with `EINVAL` for
/// NULL, else `ENODEV`.
///
/// # Safety
/// None: nothing is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_read_ibdev_sysfs_file(
    _out: *mut c_char,
    _size: usize,
    device: *mut c_void,
    _format: *const c_char,
) -> c_int {
    guard::or_minus_one(|| Err(if device.is_null() { Errno::EINVAL } else { Errno(libc::ENODEV) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_without_its_line_end() {
        let mut out = [0xffu8; 64];
        // SAFETY: the texts are C strings, the buffer has that size.
        let length = unsafe {
            nonic_ibv_read_sysfs_file(
                c"/proc/self".as_ptr(),
                c"comm".as_ptr(),
                out.as_mut_ptr().cast(),
                out.len(),
            )
        };
        let length = usize::try_from(length).expect("every process has a name");
        assert!(length > 0 && !out[..length].contains(&b'\n'));
        assert_eq!(out[length], 0);
    }

    #[test]
    fn a_missing_file_is_minus_one() {
        let mut out = [0u8; 8];
        // SAFETY: as above.
        let result = unsafe {
            nonic_ibv_read_sysfs_file(c"/proc".as_ptr(), c"nothing".as_ptr(), out.as_mut_ptr().cast(), 8)
        };
        assert_eq!(result, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
    }
}
