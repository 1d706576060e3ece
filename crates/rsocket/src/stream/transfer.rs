//! Receiving and sending.

use nonic_device::ProgramAddress;
use nonic_memory::SharedSlice;

use super::{Phase, State, Stream, lock};
use crate::gather::Gather;
use crate::waiting::Look;
use crate::{Error, Result};

/// The first message of a call is this long at most, each next one twice as long up to the last: so the first bytes are on their
/// way while the others are copied. Where others are on their way already each is as long as it can be.
const FIRST_PIECE: usize = 2048;
pub(super) const PIECE_MOST: usize = 1 << 16;

impl Stream {
    /// Receives into `target`: what there is, or all of it with `MSG_WAITALL`; 0 after the end.
    pub fn receive(&self, target: SharedSlice<'_>, flags: i32) -> Result<usize> {
        let patience = self.patience(flags, &self.receive_timeout);
        let (peek, all) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_WAITALL != 0);
        let _turn = lock(&self.receiving);
        let mut count = 0;
        loop {
            let rest = target.part(count, target.length() - count);
            let got = self.wait(patience, &mut |state| {
                state.of_program().and_then(|state| state.receive(rest, peek)).transpose()
            });
            let got = match got.and_then(|got| got) {
                Ok(got) => got,
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            };
            count += got;
            if got == 0 || peek || !all || count == target.length() {
                return Ok(count);
            }
        }
    }

    /// Copies what has come into `places`, one after the other, and leaves it there: what there is or, with `MSG_WAITALL`, as much as
    /// they hold, or as the receive buffer does; 0 after the end.
    pub fn peek(&self, places: &[SharedSlice<'_>], flags: i32) -> Result<usize> {
        let patience = self.patience(flags, &self.receive_timeout);
        let all = places.iter().fold(0usize, |sum, place| sum.saturating_add(place.length()));
        let least = if flags & libc::MSG_WAITALL != 0 { all } else { all.min(1) };
        let _turn = lock(&self.receiving);
        let found = self.wait(patience, &mut |state| {
            state.of_program().and_then(|state| state.peek(places, least)).transpose()
        });
        match found.and_then(|found| found) {
            Err(error) if matches!(error.errno(), libc::EAGAIN | libc::EINTR) => {
                // What there is is shown to who waits no longer.
                let shown = self.lock().peek(places, all.min(1))?;
                shown.filter(|count| *count > 0).ok_or(error)
            }
            other => other,
        }
    }

    /// Sends the program's bytes; a part of them if it would have to wait for more and must not.
    pub fn send(&self, slices: &[SharedSlice<'_>], flags: i32) -> Result<usize> {
        let patience = self.patience(flags, &self.send_timeout);
        let _turn = lock(&self.sending);
        let mut bytes = Gather::new(slices);
        let all = bytes.left();
        let mut piece = FIRST_PIECE;
        loop {
            let sent = self.wait(patience, &mut |state| {
                state.of_program().and_then(|state| state.send(&mut bytes, piece)).transpose()
            });
            match sent.and_then(|sent| sent) {
                Ok(()) if bytes.left() == 0 => return Ok(all),
                Ok(()) => piece = (2 * piece).min(PIECE_MOST),
                Err(_) if bytes.left() < all => return Ok(all - bytes.left()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes the program's bytes to the peer's mapping that has `offset`, and those behind it. Ends before the first byte that is
    /// in none.
    pub(crate) fn write_mapped(&self, slice: SharedSlice<'_>, offset: u64, flags: i32) -> Result<usize> {
        let patience = self.patience(flags, &self.send_timeout);
        let _turn = lock(&self.sending);
        let slices = [slice];
        let mut bytes = Gather::new(&slices);
        let all = slice.length();
        let mut piece = FIRST_PIECE;
        loop {
            let at = offset.wrapping_add((all - bytes.left()) as u64);
            let wrote = self.wait(patience, &mut |state| state.write(&mut bytes, at, piece).transpose());
            match wrote.and_then(|wrote| wrote) {
                Ok(true) if bytes.left() > 0 => piece = (2 * piece).min(PIECE_MOST),
                Ok(_) => return Ok(all - bytes.left()),
                Err(_) if bytes.left() < all => return Ok(all - bytes.left()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Maps memory of the program; see [`crate::map_memory`].
    pub(crate) fn map(
        &self,
        address: ProgramAddress,
        length: usize,
        writable: bool,
        offset: u64,
    ) -> Result<()> {
        let mut state = self.lock();
        self.update(&mut state, Look::Thorough);
        let is_connected = state.phase == Phase::Connected;
        let link = state.link.as_mut().filter(|_| is_connected).ok_or(Error::new(libc::EINVAL))?;
        link.map(address, length, writable, offset)
    }

    /// Ends a mapping.
    pub(crate) fn unmap(&self, address: usize, length: usize) -> Result<()> {
        let mut state = self.lock();
        state.link.as_mut().ok_or(Error::new(libc::EINVAL))?.unmap(address, length)
    }
}

impl State {
    fn check_was_connected(&self) -> Result<()> {
        match self.phase {
            Phase::Connected | Phase::Disconnected | Phase::Broken => Ok(()),
            Phase::Closed => Err(Error::new(libc::EBADF)),
            phase if phase.is_opening() => Err(Error::new(libc::EAGAIN)),
            _ => Err(Error::new(libc::ENOTCONN)),
        }
    }

    /// What can be received now; `Ok(None)` if it must be waited for.
    pub(super) fn receive(&mut self, target: SharedSlice<'_>, peek: bool) -> Result<Option<usize>> {
        if peek {
            return self.peek(&[target], target.length().min(1));
        }
        self.check_was_connected()?;
        let got = self.link.as_mut().map_or(0, |link| link.read(target));
        if got > 0 {
            if self.phase == Phase::Connected {
                self.talk();
            }
            return Ok(Some(got));
        }
        if self.readable && !target.is_empty() {
            return Ok(None);
        }
        self.untold.take().map_or(Ok(Some(0)), Err)
    }

    /// What can be seen now, `least` bytes unless fewer can come; `Ok(None)` if it must be waited for.
    fn peek(&mut self, places: &[SharedSlice<'_>], least: usize) -> Result<Option<usize>> {
        self.check_was_connected()?;
        let link = self.link.as_ref();
        let lacks = self.readable && link.is_some_and(|link| link.waiting() < least && !link.is_full());
        if lacks {
            return Ok(None);
        }
        match link.map_or(0, |link| link.peek(places)) {
            0 if least > 0 => self.untold.take().map_or(Ok(Some(0)), Err),
            got => Ok(Some(got)),
        }
    }

    fn check_writable(&self) -> Result<()> {
        self.check_was_connected()?;
        if self.writable { Ok(()) } else { Err(Error::new(libc::ECONNRESET)) }
    }

    /// Sends one message of `most` bytes or fewer.
    pub(super) fn send(&mut self, bytes: &mut Gather<'_>, most: usize) -> Result<Option<()>> {
        self.check_writable()?;
        let Some(link) = self.link.as_mut() else { return Ok(None) };
        link.tell_mappings()?;
        if bytes.left() == 0 {
            return Ok(Some(()));
        }
        if !link.can_send() {
            return Ok(None);
        }
        let most = if link.is_idle() { most } else { PIECE_MOST };
        link.send(bytes, most)?;
        Ok(Some(()))
    }

    /// Writes one piece directly; false if no mapping has that offset.
    fn write(&mut self, bytes: &mut Gather<'_>, offset: u64, most: usize) -> Result<Option<bool>> {
        self.check_writable()?;
        let Some(link) = self.link.as_mut() else { return Ok(None) };
        link.tell_mappings()?;
        if bytes.left() == 0 {
            return Ok(Some(false));
        }
        if !link.can_write() {
            return Ok(None);
        }
        Ok(Some(link.write(bytes, offset, most)?.is_some()))
    }
}
