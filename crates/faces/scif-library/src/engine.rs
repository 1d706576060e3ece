//! Finding the engine, and what calls do if there is none.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::calls::{Offset, ScifPollEntry, ScifPortId, ScifTable, TABLE_VERSION};

/// The engine's table, or [`ABSENT`].
static TABLE: AtomicPtr<ScifTable> = AtomicPtr::new((&raw const ABSENT).cast_mut());

/// What every call does without an engine.
static ABSENT: ScifTable = absent_table();

/// The functions to call.
#[inline(always)]
pub(crate) fn table() -> &'static ScifTable {
    // SAFETY: holds `ABSENT` or the table of a library that is never unloaded; neither is ever written to. Stored while
    // this library was loaded, which is before any of its functions can be called.
    unsafe { &*TABLE.load(Ordering::Relaxed) }
}

/// The value that says a call failed: -1 in each type.
trait Failure {
    const VALUE: Self;
}

impl Failure for c_int {
    const VALUE: Self = -1;
}

impl Failure for Offset {
    const VALUE: Self = -1;
}

impl Failure for *mut c_void {
    const VALUE: Self = ptr::without_provenance_mut(usize::MAX);
}

macro_rules! absent {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        const fn absent_table() -> ScifTable {
            $(
                #[allow(non_snake_case)]
                unsafe extern "C" fn $name($(_: $type),*) -> $result {
                    // SAFETY: the C library keeps one errno per thread, always writable by its thread.
                    unsafe { *libc::__errno_location() = libc::ENXIO };
                    Failure::VALUE
                }
            )*
            ScifTable { version: TABLE_VERSION, $($name),* }
        }
    };
}

for_each_call!(absent);

/// The loader calls this when it has loaded the library.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = connect;

/// Finds the engine. Says so if it cannot: the loader must not fail, as the program may live without SCIF.
#[cfg_attr(test, allow(dead_code))] // No loader loads a unit test as a library.
extern "C" fn connect() {
    let Some(own_name) = own_name() else {
        return complain(c"the loader does not know where this library came from");
    };
    match find(own_name) {
        Ok(table) => TABLE.store(table.cast_mut(), Ordering::Release),
        Err(reason) => complain(reason),
    }
}

/// The name that the loader found this library by.
fn own_name() -> Option<&'static CStr> {
    let mut about = MaybeUninit::<libc::Dl_info>::uninit();
    let place: *const c_void = (&raw const ABSENT).cast();
    // SAFETY: any address may be asked for, and `about` is large enough. When the answer is not 0 it is filled in; the
    // name stays as long as this library is loaded.
    unsafe {
        if libc::dladdr(place, about.as_mut_ptr()) == 0 {
            return None;
        }
        let name = about.assume_init().dli_fname;
        (!name.is_null()).then(|| CStr::from_ptr(name))
    }
}

/// The engine beside the library's file, or beside the link by which it was found.
fn find(own_name: &CStr) -> Result<*const ScifTable, &'static CStr> {
    let mut path = Path::new();
    for locate in [Path::resolve, Path::take] {
        let named = locate(&mut path, own_name) && path.name_neighbour(c"libnonic.so");
        if let Some(table) = named.then(|| load(&path)).transpose()?.flatten() {
            return Ok(table);
        }
    }
    // SAFETY: answers NULL or a text that lives until the next such call of this thread.
    let reason = unsafe { libc::dlerror() };
    // SAFETY: as above, and this thread makes no such call before the text is printed.
    Err(if reason.is_null() { c"its path is too long" } else { unsafe { CStr::from_ptr(reason) } })
}

/// The table of the engine in this file; `None` if there is no such file or it cannot be loaded.
fn load(path: &Path) -> Result<Option<*const ScifTable>, &'static CStr> {
    // Never unloaded: the engine has threads and handlers of its own in the process.
    let how = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the path is a string that ends, and loading runs the engine's constructors, which ask for nothing.
    let handle = unsafe { libc::dlopen(path.as_ptr(), how) };
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: the handle is that of a loaded library and the name a string that ends.
    let table: *const ScifTable = unsafe { libc::dlsym(handle, c"nonic_scif_table".as_ptr()) }.cast();
    // SAFETY: a symbol of this name is a table, which begins with its version in every version.
    if table.is_null() || unsafe { (*table).version } != TABLE_VERSION {
        return Err(c"libnonic.so beside it is of another version; both have to come from one build");
    }
    Ok(Some(table))
}

fn complain(reason: &CStr) {
    let words: [&[u8]; 3] = [
        b"nonic: libscif.so.0 cannot use the engine, libnonic.so, which has to lie beside it: ",
        reason.to_bytes(),
        b". Every SCIF call fails with ENXIO.\n",
    ];
    let pieces =
        words.map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
    // SAFETY: each piece is memory of its length, which is only read. A standard error that is closed hears nothing.
    unsafe { libc::writev(libc::STDERR_FILENO, pieces.as_ptr(), pieces.len() as c_int) };
}

/// A path, without an allocation.
struct Path {
    bytes: [u8; libc::PATH_MAX as usize],
}

impl Path {
    fn new() -> Self {
        Self { bytes: [0; libc::PATH_MAX as usize] }
    }

    fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Becomes the absolute path, without links, of the file that `name` leads to.
    fn resolve(&mut self, name: &CStr) -> bool {
        // SAFETY: the name ends, and the buffer has the length that the call asks for.
        unsafe { !libc::realpath(name.as_ptr(), self.bytes.as_mut_ptr().cast()).is_null() }
    }

    /// Becomes `name`.
    fn take(&mut self, name: &CStr) -> bool {
        self.put(0, name)
    }

    /// Puts `neighbour` in the place of what is behind the last slash.
    fn name_neighbour(&mut self, neighbour: &CStr) -> bool {
        let name = self.bytes.iter().take_while(|byte| **byte != 0);
        let start =
            name.enumerate().filter(|(_, byte)| **byte == b'/').last().map_or(0, |(slash, _)| slash + 1);
        // Without a slash the loader would look for the name in its own folders.
        start > 0 && self.put(start, neighbour)
    }

    /// Puts `text` at `start`, if it fits.
    fn put(&mut self, start: usize, text: &CStr) -> bool {
        let text = text.to_bytes_with_nul();
        let Some(room) = self.bytes.get_mut(start..start + text.len()) else { return false };
        room.copy_from_slice(text);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> &str {
        CStr::from_bytes_until_nul(&path.bytes).expect("a path ends").to_str().expect("it is text")
    }

    #[test]
    fn the_engine_is_looked_for_in_the_librarys_own_folder() {
        let mut path = Path::new();
        assert!(path.take(c"/opt/nonic/libscif.so.0"));
        assert!(path.name_neighbour(c"libnonic.so"));
        assert_eq!(text(&path), "/opt/nonic/libnonic.so");
    }

    #[test]
    fn a_name_without_a_folder_is_not_looked_for_anywhere_else() {
        let mut path = Path::new();
        assert!(path.take(c"libscif.so.0"));
        assert!(!path.name_neighbour(c"libnonic.so"));
    }

    #[test]
    fn a_path_with_no_room_for_the_neighbour_is_refused_and_stays() {
        let mut path = Path::new();
        let long = [vec![b'/'; libc::PATH_MAX as usize - 2], vec![b'a', 0]].concat();
        let long = CStr::from_bytes_with_nul(&long).expect("it ends");
        assert!(path.take(long));
        assert!(!path.name_neighbour(c"libnonic.so"));
        assert_eq!(text(&path).len(), long.count_bytes());
    }

    #[test]
    fn without_an_engine_calls_fail_with_enxio_in_the_value_of_their_type() {
        // SAFETY: these functions look at no argument.
        unsafe {
            assert_eq!((table().scif_open)(), -1);
            assert_eq!(*libc::__errno_location(), libc::ENXIO);
            assert_eq!((table().scif_register)(0, ptr::null_mut(), 0, 0, 0, 0), -1);
            assert_eq!((table().scif_mmap)(ptr::null_mut(), 0, 0, 0, 0, 0).addr(), usize::MAX);
        }
    }
}
