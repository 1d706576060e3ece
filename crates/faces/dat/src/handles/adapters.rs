//! The small numbers that programs of 1.2 hold instead of a handle of an interface adapter.
//!
//! As in OFED's library, which programs of today were built against. A number is used again only after all others.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nonic_sys::PerProcess;

/// Interface adapters that can be open at a time, and one.
const NUMBERS: usize = 4096;

struct Numbers {
    /// By number, the handle that the provider gave; 0 if the number is free. Number 0 is not used.
    handles: Vec<AtomicUsize>,
    last: Mutex<usize>,
}

static NUMBERS_IN_USE: PerProcess<Numbers> = PerProcess::new();

fn numbers() -> &'static Numbers {
    NUMBERS_IN_USE.get_or_make(|| Numbers {
        handles: (0..NUMBERS).map(|_| AtomicUsize::new(0)).collect(),
        last: Mutex::new(0),
    })
}

/// Finds a number for an interface adapter that its provider knows as `real`; `None` if all are taken.
pub(crate) fn add_adapter_number(real: usize) -> Option<usize> {
    let numbers = numbers();
    let mut last = numbers.last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |number: &usize| numbers.handles[*number].load(Ordering::Relaxed) == 0;
    let free = (*last + 1..NUMBERS).chain(1..=*last).find(is_free)?;
    numbers.handles[free].store(real, Ordering::Release);
    *last = free;
    Some(free)
}

/// Frees a number.
pub(crate) fn forget_adapter_number(number: usize) {
    let numbers = numbers();
    let _last = numbers.last.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = numbers.handles.get(number) {
        place.store(0, Ordering::Release);
    }
}

/// What the provider calls the interface adapter that the program means: by its number, or by that itself. 0 for a number
/// that is free.
#[inline]
pub(crate) fn real_adapter(handle: usize) -> usize {
    if handle >= NUMBERS {
        return handle;
    }
    NUMBERS_IN_USE.get().map_or(0, |numbers| numbers.handles[handle].load(Ordering::Acquire))
}

/// The number of an interface adapter.
pub(crate) fn number_of_adapter(real: usize) -> Option<usize> {
    let mut handles = NUMBERS_IN_USE.get()?.handles.iter();
    handles.position(|place| real != 0 && place.load(Ordering::Acquire) == real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_at_one_and_come_back_as_late_as_possible() {
        // Other tests of this process take numbers as well.
        let first = add_adapter_number(0x10_000).expect("a number is free");
        assert!((1..NUMBERS).contains(&first));
        assert_eq!((real_adapter(first), number_of_adapter(0x10_000)), (0x10_000, Some(first)));
        forget_adapter_number(first);
        assert_eq!((real_adapter(first), number_of_adapter(0x10_000)), (0, None));
        for _ in 0..NUMBERS / 2 {
            let next = add_adapter_number(0x20_000).expect("a number is free");
            assert_ne!(next, first);
            forget_adapter_number(next);
        }
        assert_eq!(real_adapter(0x12_3456), 0x12_3456);
        assert_eq!(real_adapter(0), 0);
    }
}
