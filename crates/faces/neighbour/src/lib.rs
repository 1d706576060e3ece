//! How the small libraries that programs load (`libscif.so.0`, `libdat.so.1`, `libdaplnonic.so.2`) find the engine, and those that
//! stand in front of the C library the functions behind theirs.
//!
//! The engine lies in `libnonic.so`, in the folder of the library that asks. Each face in it is reached through one
//! symbol: a table of functions that begins with its version. Nothing here allocates, since the loader calls it.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;

mod engine;
mod errno;
mod next;
mod path;

pub use engine::Engine;
pub use errno::{errno, fail, set_errno};
pub use next::{Missing, Next, missing};
use path::Path;

/// The table `symbol` of the engine beside the library that `place`, an address in it, belongs to.
///
/// The table begins with a word that is `version`, and stays for as long as the process lives. The reason, if there is
/// none, is a clause without a full stop.
pub fn table(place: *const c_void, symbol: &CStr, version: usize) -> Result<*const c_void, &'static CStr> {
    let own_name = own_name(place).ok_or(c"the loader does not know where this library came from")?;
    let mut path = Path::new();
    // Beside the library's file, or beside the link by which it was found.
    for locate in [Path::resolve, Path::take] {
        let named = locate(&mut path, own_name) && path.name_neighbour(c"libnonic.so");
        if let Some(table) = named.then(|| load(&path, symbol, version)).transpose()?.flatten() {
            return Ok(table);
        }
    }
    // SAFETY: answers NULL or a text that lives until the next such call of this thread.
    let reason = unsafe { libc::dlerror() };
    // SAFETY: as above, and this thread makes no such call before the text is printed.
    Err(if reason.is_null() { c"its path is too long" } else { unsafe { CStr::from_ptr(reason) } })
}

/// Says on standard error that `library` cannot use the engine and why, and what this means for the program.
pub fn complain(library: &CStr, reason: &CStr, consequence: &CStr) {
    let words: [&[u8]; 7] = [
        b"nonic: ",
        library.to_bytes(),
        b" cannot use the engine, libnonic.so, which has to lie beside it: ",
        reason.to_bytes(),
        b". ",
        consequence.to_bytes(),
        b"\n",
    ];
    let pieces =
        words.map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
    // SAFETY: each piece is memory of its length, which is only read. A standard error that is closed hears nothing.
    unsafe { libc::writev(libc::STDERR_FILENO, pieces.as_ptr(), pieces.len() as c_int) };
}

/// The name that the loader found the library by that `place` is in.
fn own_name(place: *const c_void) -> Option<&'static CStr> {
    let mut about = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked for, and `about` is large enough. When the answer is not 0 it is filled in; the
    // name stays as long as the library is loaded.
    unsafe {
        if libc::dladdr(place, about.as_mut_ptr()) == 0 {
            return None;
        }
        let name = about.assume_init().dli_fname;
        (!name.is_null()).then(|| CStr::from_ptr(name))
    }
}

/// The table in the engine of this file; `None` if there is no such file or it cannot be loaded.
fn load(path: &Path, symbol: &CStr, version: usize) -> Result<Option<*const c_void>, &'static CStr> {
    // Never unloaded: the engine has threads and handlers of its own in the process.
    let how = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the path is a string that ends, and loading runs the engine's constructors, which ask for nothing.
    let handle = unsafe { libc::dlopen(path.as_ptr(), how) };
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: the handle is that of a loaded library and the name a string that ends.
    let table: *const usize = unsafe { libc::dlsym(handle, symbol.as_ptr()) }.cast_const().cast();
    // SAFETY: a symbol of this name is a table, which begins with its version in every version.
    if table.is_null() || unsafe { *table } != version {
        return Err(c"libnonic.so beside it is of another version; both have to come from one build");
    }
    Ok(Some(table.cast()))
}
