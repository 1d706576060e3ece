//! What a stream sends.

use nonic_device::{Key, Operation, RemoteRange};
use nonic_memory::SharedSlice;

use super::{Link, Peer};
use crate::gather::Gather;
use crate::posting::{Source, post};
use crate::protocol::{Control, Mapping, Message, Sent, Target};
use crate::settings::{INLINE_MOST, LEAST};
use crate::{Error, Result};

fn range(target: Target) -> RemoteRange {
    RemoteRange { address: target.address, key: Key(target.key) }
}

impl Peer {
    /// A place in what this side may write of the peer's, so many bytes behind the beginning of its list.
    fn place(&self, offset: u64) -> RemoteRange {
        RemoteRange { address: self.list.address.wrapping_add(offset), key: Key(self.list.key) }
    }
}

impl Link {
    /// Bytes that one message can carry now.
    pub(super) fn room(&self) -> usize {
        // Entries of the peer's table go before the data that tell it of them.
        let room = |peer: &Peer| if self.own_mappings.has_news() { 0 } else { peer.sender.room() };
        self.peer.as_ref().map_or(0, |peer| room(peer) as usize)
    }

    /// Bytes that one direct write can carry now.
    fn local_room(&self) -> usize {
        let room = |peer: &Peer| if self.own_mappings.has_news() { 0 } else { peer.sender.local_room() };
        self.peer.as_ref().map_or(0, |peer| room(peer) as usize)
    }

    /// Whether a message can be sent that is worth the effort.
    pub(crate) fn can_send(&self) -> bool {
        // A buffer that is smaller than that can be empty at most.
        let least = LEAST.min(self.sizes.send_buffer);
        !self.own_mappings.has_news() && self.peer.as_ref().is_some_and(|peer| peer.sender.can_send(least))
    }

    /// Whether a direct write can be sent.
    pub(crate) fn can_write(&self) -> bool {
        self.local_room() > 0
    }

    /// Whether something about the stream itself can be sent.
    pub(crate) fn can_control(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.sender.can_control())
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.peer.as_ref().is_none_or(|peer| peer.sender.is_idle())
    }

    /// Sends the next bytes of the program in one message, `most` at most. Returns how many.
    pub(crate) fn send(&mut self, bytes: &mut Gather<'_>, most: usize) -> Result<usize> {
        let told = self.place(bytes, most)?;
        if told > 0 {
            return Ok(told);
        }
        let length = bytes.left().min(most).min(self.room());
        if length == 0 {
            return Ok(0);
        }
        let target = self.peer()?.sender.send_data(length as u32);
        let immediate = Some(Message::Data(length as u32).immediate());
        self.carry(Operation::Write { remote: range(target), immediate }, bytes, length)?;
        Ok(length)
    }

    /// Copies the next bytes of the program to where the peer receives, and tells it of them. 0: they cannot go so, or are too few.
    fn place(&mut self, bytes: &mut Gather<'_>, most: usize) -> Result<usize> {
        if self.own_mappings.has_news() || bytes.next().length() <= INLINE_MOST as usize {
            return Ok(0);
        }
        let Some(peer) = &mut self.peer else { return Err(Error::new(libc::ENOTCONN)) };
        let open = peer.sender.open();
        let next = bytes.next();
        let length = next.length().min(most).min(open.length as usize);
        let pair = self.endpoint.pair();
        if length == 0 || !pair.write_now(range(open), next.part(0, length), &mut peer.crossing) {
            return Ok(0);
        }
        bytes.skip(length);
        // To the peer it looks as a message of that length does whose bytes came with it.
        peer.sender.tell_data(length as u32);
        let operation = Operation::Write {
            remote: range(open),
            immediate: Some(Message::Data(length as u32).immediate()),
        };
        let nothing = Source::Inline(SharedSlice::of_private(&mut []));
        post(pair, Sent::Bytes(0).mark(), operation, nothing)?;
        Ok(length)
    }

    /// Writes the next bytes of the program to a mapping of the peer's that has `offset`, `most` at most. Returns how many; `None`
    /// if there is no such mapping.
    pub(crate) fn write(
        &mut self,
        bytes: &mut Gather<'_>,
        offset: u64,
        most: usize,
    ) -> Result<Option<usize>> {
        let length = bytes.left().min(most).min(self.local_room());
        let peer = self.peer()?;
        let Some(target) = peer.mappings.iter().find_map(|mapping| mapping.part(offset, length)) else {
            return Ok(None);
        };
        if length == 0 {
            return Ok(Some(0));
        }
        peer.sender.send_silently(target.length);
        let operation = Operation::Write { remote: range(target), immediate: None };
        self.carry(operation, bytes, target.length as usize)?;
        Ok(Some(target.length as usize))
    }

    fn carry(&mut self, operation: Operation, bytes: &mut Gather<'_>, length: usize) -> Result<()> {
        let mark = Sent::Bytes(length as u32).mark();
        if length <= self.sizes.inline.min(INLINE_MOST) as usize {
            let mut small = [0; INLINE_MOST as usize];
            let small = SharedSlice::of_private(&mut small[..length]);
            bytes.copy_to(small);
            return post(self.endpoint.pair(), mark, operation, Source::Inline(small));
        }
        let parts = self.peer()?.sender.take_buffer(length as u32);
        let buffer = self.send_buffer.bytes();
        for (offset, length) in parts {
            bytes.copy_to(buffer.part(offset as usize, length as usize));
        }
        post(self.endpoint.pair(), mark, operation, Source::Buffer(&self.send_buffer, parts))
    }

    /// Says something about the stream itself, for which there is room.
    pub(crate) fn say(&mut self, control: Control) -> Result<()> {
        let ends = control == Control::Disconnect;
        let immediate = Some(Message::Control(control).immediate());
        self.post_control(0, immediate, &mut [], ends)
    }

    /// Writes nothing, for which there is room: if the peer is gone that fails.
    pub(crate) fn ask_whether_there(&mut self) -> Result<()> {
        self.post_control(0, None, &mut [], false)
    }

    fn post_control(
        &mut self,
        offset: u64,
        immediate: Option<u32>,
        bytes: &mut [u8],
        ends: bool,
    ) -> Result<()> {
        let peer = self.peer()?;
        peer.sender.send_control();
        let operation = Operation::Write { remote: peer.place(offset), immediate };
        let source = Source::Inline(SharedSlice::of_private(bytes));
        post(self.endpoint.pair(), Sent::Control { ends }.mark(), operation, source)
    }

    /// Tells the peer what it may send, if that is due.
    pub(crate) fn give_credit(&mut self) -> Result<()> {
        loop {
            let peer = self.peer()?;
            if !peer.sender.can_control() {
                return Ok(());
            }
            let Some(announcement) = peer.receiver.announcement() else { return Ok(()) };
            peer.receiver.announced(&announcement);
            let order = peer.order;
            let immediate = Some(Message::Credit(announcement.limit).immediate());
            match announcement.half {
                None => self.post_control(0, immediate, &mut [], false)?,
                Some(half) => {
                    let target = Target {
                        address: self.receive_buffer.address() + u64::from(half.offset),
                        key: self.receive_buffer.remote_key(),
                        length: half.length,
                    };
                    let place = u64::from(half.entry) * Target::LENGTH as u64;
                    self.post_control(place, immediate, &mut target.emit(order), false)?;
                }
            }
        }
    }

    /// Tells the peer of mappings that it does not know, as far as there is room.
    pub(crate) fn tell_mappings(&mut self) -> Result<()> {
        while let Some((index, mapping)) = self.own_mappings.news() {
            let length = Mapping::LENGTH as u32;
            let peer = self.peer()?;
            if !peer.sender.can_map(length) {
                return Ok(());
            }
            peer.sender.send_mapping(length);
            let remote = peer.place(Mapping::place(peer.list.length, index));
            let immediate = Some(Message::Mapping(index).immediate());
            let mut bytes = mapping.emit(peer.order);
            let source = Source::Inline(SharedSlice::of_private(&mut bytes));
            let operation = Operation::Write { remote, immediate };
            post(self.endpoint.pair(), Sent::Bytes(length).mark(), operation, source)?;
            self.own_mappings.told();
        }
        Ok(())
    }
}
