//! Descriptors of the library's that a child must not keep open.

use nonic_sys::{AsFd, AsRawFd, OwnedFd, RawFd, forget_in_children, keep_in_children};

/// A descriptor of this process alone: in a child its number stands for something inert.
#[derive(Debug)]
pub(crate) struct KeptDescriptor(Option<OwnedFd>);

impl KeptDescriptor {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        forget_in_children(descriptor.as_fd());
        Self(Some(descriptor))
    }

    pub(crate) fn number(&self) -> RawFd {
        self.descriptor().as_raw_fd()
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        self.0.as_ref().expect("it is there until it is taken out")
    }

    /// As one that children keep.
    pub(crate) fn into_descriptor(mut self) -> OwnedFd {
        keep_in_children(self.descriptor().as_fd());
        self.0.take().expect("it was there a moment ago")
    }
}

impl Drop for KeptDescriptor {
    fn drop(&mut self) {
        if let Some(descriptor) = &self.0 {
            keep_in_children(descriptor.as_fd());
        }
    }
}
