//! What has come, and what has ended.

use nonic_device::Completion;

use super::{Link, RECEIVE};
use crate::memory::Buffer;
use crate::protocol::{Control, Mapping, Message, Sent, Target};

/// What a look at the completions brought that changes the stream's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// There was something.
    pub(crate) any: bool,
    /// The peer has ended the stream.
    pub(crate) disconnected: bool,
    /// The peer sends nothing more.
    pub(crate) shut_down: bool,
    /// The peer has taken the end that this side made.
    pub(crate) ended: bool,
    /// Something failed, or the peer did what it may not.
    pub(crate) failed: bool,
}

/// Completions looked at in one turn.
const TURN: usize = 32;

impl Link {
    /// Handles everything that has completed by now.
    pub(crate) fn reap(&mut self) -> News {
        let mut news = News::default();
        loop {
            let mut turn = [None; TURN];
            let mut count = 0;
            let add = |completion: &Completion| {
                turn[count] = Some(*completion);
                count += 1;
            };
            let polled = self.endpoint.poll(add, TURN);
            news.any |= count > 0;
            let mut receives = 0;
            for completion in turn.iter().flatten() {
                self.handle(completion, &mut news, &mut receives);
            }
            news.failed |= polled.is_err();
            if !news.disconnected && !news.failed {
                news.failed |= (0..receives).any(|_| self.post_receive().is_err());
            }
            if count < TURN {
                return news;
            }
        }
    }

    fn handle(&mut self, completion: &Completion, news: &mut News, receives: &mut u32) {
        let succeeded = completion.status.is_success();
        if completion.id == RECEIVE {
            // Behind the end nothing counts: what was posted is flushed, or was sent by a peer that does not obey.
            if news.disconnected || news.failed {
                return;
            }
            *receives += 1;
            if !succeeded || self.take_message(completion.immediate, news).is_none() {
                tracing::debug!(?completion, "a stream is broken off");
                news.failed = true;
            }
            return;
        }
        let sent = Sent::of_mark(completion.id);
        if let Some(peer) = &mut self.peer {
            peer.sender.ended(sent);
        }
        news.ended |= succeeded && sent == Sent::Control { ends: true };
        // What was sent to a peer that has ended the stream may well fail.
        news.failed |= !succeeded && !news.disconnected && !news.ended;
    }

    /// Handles a message; `None` if it is one that must not come.
    fn take_message(&mut self, immediate: Option<u32>, news: &mut News) -> Option<()> {
        let message = Message::of_immediate(immediate?)?;
        let Self { peer, list, .. } = self;
        let peer = peer.as_mut()?;
        match message {
            Message::Data(length) => peer.receiver.arrived(length).ok()?,
            Message::Credit(limit) => peer.sender.credit(limit, |entry| take_target(list, entry)),
            Message::Mapping(index) => {
                let place = peer.mappings.get_mut(index as usize)?;
                // Copied now, and never looked at again where the peer can write.
                *place = copy_mapping(list, index);
                peer.receiver.passed();
            }
            Message::Control(Control::Disconnect) => news.disconnected = true,
            Message::Control(Control::Shutdown) => news.shut_down = true,
            Message::Ignored => {}
        }
        Some(())
    }
}

/// Takes an entry out of the list, if there is one.
fn take_target(list: &Buffer, entry: usize) -> Option<Target> {
    let place = list.bytes().part(entry * Target::LENGTH, Target::LENGTH);
    // The half with the length first: an entry that is just being written, of which no message has come yet, is seen all or not
    // at all, for its last bytes are the last to be there.
    let [mut address, mut rest] = [[0; 8]; 2];
    place.part(8, 8).read(&mut rest);
    place.part(0, 8).read(&mut address);
    let target = Target::parse(address, rest);
    if target.length == 0 {
        return None;
    }
    place.write(&[0; Target::LENGTH]);
    Some(target)
}

fn copy_mapping(list: &Buffer, index: u32) -> Mapping {
    let mut bytes = [0; Mapping::LENGTH];
    let place = Mapping::place(crate::protocol::TARGETS as u32, index) as usize;
    list.bytes().part(place, Mapping::LENGTH).read(&mut bytes);
    Mapping::parse(&bytes)
}
