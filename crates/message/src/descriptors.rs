//! The descriptors that came with a message.

use std::os::fd::OwnedFd;

use crate::Malformed;

/// The descriptors that came with a message, in the order in which it speaks of them. Those that nobody takes are closed.
#[derive(Debug)]
pub struct Descriptors {
    count: usize,
    left: std::vec::IntoIter<OwnedFd>,
}

impl Descriptors {
    /// Those that a socket brought.
    pub fn new(descriptors: Vec<OwnedFd>) -> Self {
        Self { count: descriptors.len(), left: descriptors.into_iter() }
    }

    /// The next one, which must be there.
    pub fn take(&mut self) -> Result<OwnedFd, Malformed> {
        let needed = self.count - self.left.len() + 1;
        self.left.next().ok_or(Malformed::Descriptors { count: self.count, needed })
    }

    /// `N` that must be there, and nothing behind them.
    pub fn exactly<const N: usize>(self) -> Result<[OwnedFd; N], Malformed> {
        let malformed = Malformed::Descriptors { count: self.left.len(), needed: N };
        self.left.collect::<Vec<_>>().try_into().map_err(|_| malformed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    fn three() -> (Vec<OwnedFd>, Vec<i32>) {
        let open = || OwnedFd::from(File::open("/dev/null").expect("there is a null device"));
        let descriptors = vec![open(), open(), open()];
        let numbers = descriptors.iter().map(OwnedFd::as_raw_fd).collect();
        (descriptors, numbers)
    }

    #[test]
    fn they_are_taken_in_order_and_one_that_is_missing_is_told() {
        let (descriptors, numbers) = three();
        let mut descriptors = Descriptors::new(descriptors);
        let taken = [(); 3].map(|()| descriptors.take().expect("three came"));
        assert_eq!(taken.each_ref().map(OwnedFd::as_raw_fd)[..], numbers);
        assert_eq!(descriptors.take().err(), Some(Malformed::Descriptors { count: 3, needed: 4 }));
    }

    #[test]
    fn as_many_as_there_have_to_be_are_taken_and_no_other_number() {
        let all = Descriptors::new(three().0).exactly::<3>().map(|taken| taken.len());
        assert_eq!(all, Ok(3));
        let surplus = Descriptors::new(three().0).exactly::<2>().err();
        assert_eq!(surplus, Some(Malformed::Descriptors { count: 3, needed: 2 }));
        let missing = Descriptors::new(three().0).exactly::<4>().err();
        assert_eq!(missing, Some(Malformed::Descriptors { count: 3, needed: 4 }));
    }
}
