//! The functions behind those of a library that stands in front of the C library: the C library's, or those of a library between.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::set_errno;

/// The next function of a name, looked up when it is first asked for.
#[derive(Debug)]
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// That of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Where it is; NULL if there is none.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        match self.found.load(Ordering::Relaxed) {
            found if found.is_null() => self.find(),
            found => found,
        }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name is a string that ends.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// What a function answers that is not there.
pub trait Missing {
    /// Its answer.
    const VALUE: Self;
}

impl Missing for c_int {
    const VALUE: Self = -1;
}

impl Missing for c_long {
    const VALUE: Self = -1;
}

impl Missing for isize {
    const VALUE: Self = -1;
}

impl<T> Missing for *mut T {
    const VALUE: Self = ptr::null_mut();
}

/// The answer for a function that is not there: `ENOSYS`.
pub fn missing<T: Missing>() -> T {
    set_errno(libc::ENOSYS);
    T::VALUE
}

/// Makes a function of the crate for each of the list, which calls the next of its name.
#[macro_export]
macro_rules! next {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[doc = concat!("The next `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As in C.
        #[inline]
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            const NAME: &core::ffi::CStr =
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
            static NEXT: $crate::Next = $crate::Next::new(NAME);
            let found = NEXT.address();
            if found.is_null() {
                return $crate::missing();
            }
            // SAFETY: the C library's function of this name is of this type.
            let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { core::mem::transmute(found) };
            // SAFETY: the caller's promise is the one that the function asks for.
            unsafe { function($($argument),*) }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    mod real {
        use core::ffi::c_int;

        next! {
            abs(number: c_int) -> c_int;
            no_library_has_this(number: c_int) -> c_int;
            nor_this() -> *mut c_int;
        }
    }

    #[test]
    fn the_next_function_is_called_and_one_that_is_not_there_fails() {
        // SAFETY: takes a number; the others are not there.
        unsafe {
            assert_eq!(real::abs(-7), 7);
            assert_eq!(real::abs(-8), 8);
            assert_eq!((real::no_library_has_this(1), crate::errno()), (-1, libc::ENOSYS));
            set_errno(0);
            assert!(real::nor_this().is_null() && crate::errno() == libc::ENOSYS);
        }
        assert_eq!((crate::fail::<isize>(libc::EBADF), crate::errno()), (-1, libc::EBADF));
    }
}
