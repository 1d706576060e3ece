//! Events that others than the machine put into a channel.

use crate::{Error, EventKind, Id, Parameters};

impl Id {
    /// Puts an event behind those that wait, in whichever state the identifier is: of the program's own (`User`, with a word:
    /// `rdma_write_cm_event(3)`), or of the layer above, which looks names up (`AddressInfoResolved`, `AddressInfoError`).
    ///
    /// Errors: `Argument` for a kind that only the machine itself tells.
    pub fn report(&self, kind: EventKind, status: i32, parameters: Parameters) -> Result<(), Error> {
        if !matches!(kind, EventKind::User | EventKind::AddressInfoResolved | EventKind::AddressInfoError) {
            return Err(Error::Argument("this event is not the program's to tell"));
        }
        let core = self.lock_alive()?;
        self.push(&core, kind, status, parameters);
        Ok(())
    }
}
