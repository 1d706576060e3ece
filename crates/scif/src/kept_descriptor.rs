//! Descriptors of the library's that a child must not keep open.

use nonic_sys::{AsFd, AsRawFd, OwnedFd, RawFd, forget_in_children, keep_in_children};

/// A descriptor of this process alone: in a child its number stands for something inert.
#[derive(Debug)]
pub(crate) struct KeptDescriptor(OwnedFd);

impl KeptDescriptor {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        forget_in_children(descriptor.as_fd());
        Self(descriptor)
    }

    pub(crate) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}

impl Drop for KeptDescriptor {
    fn drop(&mut self) {
        keep_in_children(self.0.as_fd());
    }
}
