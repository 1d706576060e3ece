//! Where a path of the view leads.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};

use nonic_neighbour::{errno, fail, set_errno};

use crate::engine::{inside, is_inside, is_used, use_it};
use crate::path::{self, Buffer, MARKS};
use crate::real;

/// Whether the view is switched off (`NONIC_VIEW=off`).
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether the call is the kernel's whatever it names: the view is switched off, or the engine calls.
pub(crate) fn is_none_of_ours() -> bool {
    OFF.load(Ordering::Relaxed) || is_inside()
}

/// A place in the tree.
pub(crate) struct Place {
    /// The path as programs know it.
    public: Buffer,
    /// The path in the tree, or of what stands for a device node.
    actual: Buffer,
    /// The numbers of the device node that it is.
    pub(crate) node: Option<path::DeviceNumbers>,
}

/// Called by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = when_loaded;

extern "C" fn when_loaded() {
    // SAFETY: the name ends; the environment is the program's, which does not run yet.
    let value = unsafe { libc::getenv(c"NONIC_VIEW".as_ptr()) };
    // SAFETY: not NULL, so a text that ends.
    let off = !value.is_null() && unsafe { CStr::from_ptr(value) }.to_bytes().eq_ignore_ascii_case(b"off");
    OFF.store(off, Ordering::Relaxed);
    let mut here = Buffer::new();
    // A program that is started in the view looks at it by relative paths.
    if !off && current_folder(&mut here) && path::public(here.bytes()).is_some() {
        use_it();
    }
}

/// Called by the loader when the program ends.
#[used]
#[unsafe(link_section = ".fini_array")]
static WHEN_ENDED: extern "C" fn() = when_ended;

extern "C" fn when_ended() {
    crate::engine::leave();
}

/// Does `work` at the place that a path leads to, from an open folder on; `None` for paths that are not the view's.
///
/// Whoever calls this has asked [`may_be_ours`]: the room that a place takes is taken here, so that calls which are none of the
/// view's need none.
///
/// # Safety
/// `path` is a C string.
#[cold]
#[inline(never)]
pub(crate) unsafe fn lead<T>(
    folder: c_int,
    path: *const c_char,
    work: impl FnOnce(&Place) -> T,
) -> Option<T> {
    if is_none_of_ours() {
        return None;
    }
    let before = errno();
    // SAFETY: the caller's promise.
    let given = unsafe { CStr::from_ptr(path) }.to_bytes();
    let mut place = Place { public: Buffer::new(), actual: Buffer::new(), node: None };
    let found = place.find(folder, given);
    set_errno(before);
    found.then(|| work(&place))
}

/// Whether a path is worth a closer look.
///
/// # Safety
/// `path` is NULL or a C string.
#[inline(always)]
pub(crate) unsafe fn may_be_ours(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: a C string, and words that end.
    unsafe {
        MARKS.iter().any(|mark| !libc::strstr(path, mark.as_ptr()).is_null())
            || (is_used() && *path != b'/' as c_char)
    }
}

impl Place {
    fn find(&mut self, folder: c_int, given: &[u8]) -> bool {
        if given.is_empty() {
            return false; // The folder itself: a descriptor, which the kernel knows.
        }
        let mut base = Buffer::new();
        if given[0] != b'/' {
            let known = if folder == libc::AT_FDCWD {
                current_folder(&mut base)
            } else {
                folder_of_descriptor(folder, &mut base)
            };
            if !known {
                return false;
            }
        }
        let from = path::public(base.bytes()).unwrap_or(base.bytes());
        if !path::find(from, given, &mut self.public) {
            return false;
        }
        let room = self.actual.room();
        // SAFETY: the buffer is as long as it is said to be.
        let length = inside(|table| unsafe { (table.root)(room.as_mut_ptr().cast(), Buffer::ROOM) });
        let Ok(length) = usize::try_from(length) else { return false };
        self.actual.end_at(length);
        if !self.actual.push(self.public.bytes()) {
            return false;
        }
        use_it();
        self.node = path::node(self.public.bytes());
        if self.node.is_some() && self.exists() {
            self.actual.end_at(0);
            return self.actual.push(b"/dev/null");
        }
        true
    }

    /// The path to give to the kernel.
    pub(crate) fn path(&self) -> *const c_char {
        self.actual.as_ptr()
    }

    /// The path as programs know it.
    pub(crate) fn public(&self) -> &Buffer {
        &self.public
    }

    /// Whether anything stands there.
    pub(crate) fn exists(&self) -> bool {
        let before = errno();
        // SAFETY: a path that ends. Links that lead nowhere are there, too.
        let found = unsafe {
            real::faccessat(libc::AT_FDCWD, self.path(), libc::F_OK, libc::AT_SYMLINK_NOFOLLOW) == 0
        };
        set_errno(before);
        found
    }

    /// A descriptor of the present value of the counter that stands there, or -1 with the reason in `errno`; `None` if there is none.
    pub(crate) fn counter(&self) -> Option<c_int> {
        if !path::is_below_counters(self.public.bytes()) {
            return None;
        }
        const NO_COUNTER: c_int = -libc::ENOENT;
        // SAFETY: a path that ends.
        let number = inside(|table| unsafe { (table.counter)(self.public.as_ptr()) });
        match number {
            NO_COUNTER => None,
            failed if failed < 0 => Some(fail(-failed)),
            number => Some(number),
        }
    }
}

/// The working folder, as the kernel has it. One that has been taken away has no path any more: a link still says what it was, as
/// between the program that has left the view, and with it the tree, and the one that it has become.
pub(crate) fn current_folder(out: &mut Buffer) -> bool {
    let room = out.room();
    // SAFETY: the buffer is as long as it is said to be. The call answers the length with the NUL.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, room.as_mut_ptr(), room.len()) };
    if length < 0 && errno() == libc::ENOENT {
        return target(c"/proc/self/cwd", out);
    }
    out.end_at(usize::try_from(length).map_or(0, |length| length.saturating_sub(1)));
    length > 0
}

/// What a link of the kernel's says.
fn target(link: &CStr, out: &mut Buffer) -> bool {
    let room = out.room();
    // SAFETY: the path ends, and the buffer is as long as it is said to be.
    let length = unsafe { real::readlink(link.as_ptr(), room.as_mut_ptr().cast(), room.len() - 1) };
    out.end_at(usize::try_from(length).unwrap_or(0));
    length > 0
}

/// What an open folder is called.
fn folder_of_descriptor(folder: c_int, out: &mut Buffer) -> bool {
    const LINKS: &[u8] = b"/proc/self/fd/";
    let mut link = [0u8; LINKS.len() + 12];
    link[..LINKS.len()].copy_from_slice(LINKS);
    let Ok(number) = u32::try_from(folder) else { return false };
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut left = number;
    for place in (LINKS.len()..LINKS.len() + digits).rev() {
        link[place] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    CStr::from_bytes_until_nul(&link).is_ok_and(|link| target(link, out))
}

/// Functions that follow a path: each is led to where the path leads in the tree, and else calls the next of its name.
macro_rules! follows {
    ($($(#[$doc:meta])* $name:ident($path:ident$(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($path: *const c_char $(, $argument: $type)*) -> $result {
            // SAFETY: as in C.
            unsafe {
                if $crate::place::may_be_ours($path)
                    && let Some(answer) = $crate::place::lead(libc::AT_FDCWD, $path, |place| {
                        $crate::real::$name(place.path() $(, $argument)*)
                    })
                {
                    return answer;
                }
                $crate::real::$name($path $(, $argument)*)
            }
        }
    )*};
}

pub(crate) use follows;
