//! The words in which messages stand in a ring: three that every header has, and up to four more.
//!
//! The first: the ring's stamp, the kind, flags, the payload's length. The second: both queue pairs. The third: the number,
//! which attempt, and a second number, which is immediate data, the number of a refusal, the key that a send takes out of
//! use, how far a flush goes, or what the message acknowledges besides. The last word of a request on an extended connection is the number of the
//! shared receive queue it is for.

mod kind;
mod refusal;
mod short;

use nonic_protocol::{
    Answer, AtomicChange, AtomicRequest, BaseHeader, Body, Datagram, Extent, FlushRequest,
    InvalidateFragment, Key, Message, Placement, Psn, QpNumber, QueueName, ReadRequest, RemoteRange, Request,
    Selectivity, SendFragment, SendPull, SrqNumber, WriteFragment, WriteNotify,
};

pub(crate) use kind::Kind;
use refusal::{number_of, refusal_of};
pub use short::ShortSend;

/// Payload bytes of one ring message at most; longer messages travel as fragments.
pub const FRAGMENT: usize = 8192;

/// Words of a header at most.
pub(crate) const HEADER_WORDS: usize = 8;

/// What stands in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// What fills the rest of the ring before it starts again.
    Padding,
    /// A message.
    Message(Message),
}

pub(crate) const SOLICITED: u64 = 1;
/// There is a second number that is no acknowledgement.
const IMMEDIATE: u64 = 1 << 1;
/// The payload of a send is all of its message.
pub(crate) const WHOLE: u64 = 1 << 2;
const SWAP: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 4;
pub(crate) const ACKNOWLEDGES: u64 = 1 << 5;
/// Behind all other words of a request stands the number of a shared receive queue.
const EXTENDED: u64 = 1 << 6;
const FLAGS: u64 = 0b111_1111;

const fn flag(on: bool, bit: u64) -> u64 {
    if on { bit } else { 0 }
}

const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The first word: what is stored last, and makes a message of the others.
#[inline(always)]
fn first_word(stamp: u16, kind: Kind, flags: u64, payload: u32) -> u64 {
    u64::from(stamp) | (kind as u64) << 16 | flags << 24 | u64::from(payload) << 32
}

/// The second and the third word.
#[inline(always)]
fn base_words(base: BaseHeader, second: u32) -> (u64, u64) {
    let numbers = u64::from(base.psn.0) | u64::from(base.attempt()) << 24 | u64::from(second) << 32;
    (pair(base.destination.0, base.source.0), numbers)
}

/// What the second and the third word say; `None` if there are no such queue pairs.
#[inline(always)]
fn base_of(ends: u64, numbers: u64) -> Option<BaseHeader> {
    let (destination, source) = (low(ends), high(ends));
    if destination > QpNumber::MASK || source > QpNumber::MASK {
        return None;
    }
    Some(BaseHeader::new(
        QpNumber(destination),
        QpNumber(source),
        Psn(low(numbers) & QpNumber::MASK),
        (numbers >> 24) as u8,
    ))
}

/// The second number of a message and the flags that say what it is.
#[inline]
fn second_number(immediate: Option<u32>, acknowledges: Option<Psn>) -> (u32, u64) {
    match (immediate, acknowledges) {
        (Some(immediate), _) => (immediate, IMMEDIATE),
        (None, Some(psn)) => (psn.0, ACKNOWLEDGES),
        (None, None) => (0, 0),
    }
}

/// Words of the header of a message with so many bytes of payload.
#[inline]
pub(crate) fn words_for(message: &Message, payload: u32) -> usize {
    let whole = matches!(message.body, Body::Request(Request::Send(send)) if send.extent.is_whole(payload));
    let extended = (message.base.queue() != QueueName::NONE) as usize;
    3 + Kind::of(&message.body).extension_words(whole) + extended
}

/// Words of the header that begins with `first`; `None` if there is no such kind.
#[inline]
pub(crate) fn words_of(first: u64) -> Option<usize> {
    let whole = first >> 24 & WHOLE != 0;
    let extended = (first >> 24 & EXTENDED != 0) as usize;
    Some(3 + Kind::from_number((first >> 16) as u8)?.extension_words(whole) + extended)
}

/// The first word of padding that fills so many bytes behind the other two.
pub(crate) fn padding(stamp: u16, payload: u32) -> u64 {
    first_word(stamp, Kind::Padding, 0, payload)
}

/// Gives the words of the header but the first to `store`, each once, and returns the first, which is to be stored when
/// everything else is. `stamp` says which lap of the ring it belongs to.
#[inline]
pub(crate) fn emit(message: &Message, stamp: u16, payload: u32, mut store: impl FnMut(usize, u64)) -> u64 {
    let (mut second, mut flags) = (0, 0);
    match &message.body {
        Body::Request(request) => (second, flags) = emit_request(request, payload, &mut store),
        Body::Answer(Answer::Acknowledge | Answer::Ready) => {}
        Body::Answer(Answer::Refuse(refusal)) => (second, flags) = (number_of(*refusal), IMMEDIATE),
        Body::Answer(Answer::ReadResponse(response)) => store(3, pair(response.total, response.offset)),
        Body::Answer(Answer::AtomicResponse { old }) => store(3, *old),
        Body::Datagram(datagram) => {
            (second, flags) = second_number(datagram.immediate, None);
            flags |= flag(datagram.solicited, SOLICITED) | flag(datagram.global_header, GLOBAL);
            store(3, pair(datagram.q_key, datagram.source_lid.into()));
        }
    }
    if let Some(queue) = message.base.queue().number() {
        flags |= EXTENDED;
        store(words_for(message, payload) - 1, queue.0.into());
    }
    let (ends, numbers) = base_words(message.base, second);
    store(1, ends);
    store(2, numbers);
    first_word(stamp, Kind::of(&message.body), flags, payload)
}

/// The words of a request behind the three that every header has; returns its second number and its flags.
#[inline(always)]
fn emit_request(request: &Request, payload: u32, store: &mut impl FnMut(usize, u64)) -> (u32, u64) {
    let extent = |extent: Extent| pair(extent.total, extent.offset);
    let solicits = |solicited: bool| flag(solicited, SOLICITED);
    let (mut second, mut flags) = (0, 0);
    match *request {
        Request::Send(send) => {
            (second, flags) = second_number(send.immediate, send.acknowledges);
            flags |= solicits(send.solicited);
            if send.extent.is_whole(payload) {
                flags |= WHOLE;
            } else {
                store(3, extent(send.extent));
            }
        }
        Request::Pull(send) => {
            (second, flags) = second_number(send.immediate, send.acknowledges);
            flags |= solicits(send.solicited);
            store(3, extent(Extent::whole(send.total)));
        }
        Request::SendInvalidate(send) => {
            (second, flags) = (send.key.0, IMMEDIATE | solicits(send.solicited));
            store(3, extent(send.extent));
        }
        Request::Write(write) => {
            (second, flags) = second_number(write.immediate, None);
            flags |= solicits(write.solicited);
            store(3, write.remote.address);
            store(4, u64::from(write.remote.key.0));
            store(5, extent(write.extent));
        }
        Request::WriteNotify(write) => {
            (second, flags) = (write.immediate, IMMEDIATE | solicits(write.solicited));
            store(3, extent(Extent::whole(write.total)));
        }
        Request::Read(read) => {
            store(3, read.remote.address);
            store(4, pair(read.remote.key.0, read.total));
        }
        Request::Flush(FlushRequest { remote, length, placement, selectivity }) => {
            (second, flags) = (how_far(placement, selectivity), IMMEDIATE);
            store(3, remote.address);
            store(4, pair(remote.key.0, length));
        }
        Request::Atomic(AtomicRequest { remote, change }) => {
            let (operand, swap) = match change {
                AtomicChange::CompareSwap { compare, swap } => (compare, Some(swap)),
                AtomicChange::FetchAdd { add } => (add, None),
            };
            flags = flag(swap.is_some(), SWAP);
            store(3, remote.address);
            store(4, u64::from(remote.key.0));
            store(5, operand);
            store(6, swap.unwrap_or_default());
        }
    }
    (second, flags)
}

/// Reads a header from words that were copied out of the ring; `None` if they make no sense. Also returns the header's length
/// in words and the payload's in bytes.
#[inline]
pub(crate) fn parse(words: &[u64; HEADER_WORDS]) -> Option<(Entry, usize, u32)> {
    let kind = Kind::from_number((words[0] >> 16) as u8)?;
    let flags = words[0] >> 24 & 0xff;
    if flags & !FLAGS != 0 {
        return None;
    }
    let payload = high(words[0]);
    let whole = flags & WHOLE != 0;
    let mut base = base_of(words[1], words[2])?;
    let mut count = 3 + kind.extension_words(whole);
    if flags & EXTENDED != 0 {
        // Rare, and out of the way; what comes back is a number, so that the header is put together in registers.
        base = base.for_queue(queue_behind(kind, words[count])?);
        count += 1;
    }
    if kind == Kind::Padding {
        return Some((Entry::Padding, count, payload));
    }
    let second = high(words[2]);
    let immediate = (flags & IMMEDIATE != 0).then_some(second);
    let solicited = flags & SOLICITED != 0;
    let mut acknowledges = None;
    if flags & ACKNOWLEDGES != 0 {
        if !matches!(kind, Kind::Send | Kind::Pull) || immediate.is_some() {
            return None;
        }
        acknowledges = Some(Psn(second & QpNumber::MASK));
    }
    let remote = || RemoteRange { address: words[3], key: Key(low(words[4])) };
    // A fragment that goes beyond its message makes no sense, nor does one where there are none.
    let fragment = |word: u64| {
        Some(Extent { total: low(word), offset: high(word) }).filter(|extent| extent.holds(payload))
    };
    let unbroken = |word: u64| (high(word) == 0).then_some(low(word));
    let body = match kind {
        Kind::Padding => return None,
        Kind::Send => {
            let extent = if whole { Extent::whole(payload) } else { fragment(words[3])? };
            Body::Request(Request::Send(SendFragment { extent, immediate, solicited, acknowledges }))
        }
        Kind::Pull => {
            let total = unbroken(words[3])?;
            Body::Request(Request::Pull(SendPull { total, immediate, solicited, acknowledges }))
        }
        Kind::SendInvalidate => {
            let (extent, key) = (fragment(words[3])?, Key(immediate?));
            Body::Request(Request::SendInvalidate(InvalidateFragment { extent, key, solicited }))
        }
        Kind::Write => {
            let (extent, remote) = (fragment(words[5])?, remote());
            Body::Request(Request::Write(WriteFragment { extent, remote, immediate, solicited }))
        }
        Kind::WriteNotify => {
            let (total, immediate) = (unbroken(words[3])?, immediate?);
            Body::Request(Request::WriteNotify(WriteNotify { total, immediate, solicited }))
        }
        Kind::Read => Body::Request(Request::Read(ReadRequest { remote: remote(), total: high(words[4]) })),
        Kind::Flush => {
            let (placement, selectivity) = placement_and_selectivity(immediate?)?;
            let (remote, length) = (remote(), high(words[4]));
            Body::Request(Request::Flush(FlushRequest { remote, length, placement, selectivity }))
        }
        Kind::Atomic => {
            let change = if flags & SWAP != 0 {
                AtomicChange::CompareSwap { compare: words[5], swap: words[6] }
            } else {
                AtomicChange::FetchAdd { add: words[5] }
            };
            Body::Request(Request::Atomic(AtomicRequest { remote: remote(), change }))
        }
        Kind::Datagram => Body::Datagram(Datagram {
            q_key: low(words[3]),
            source_lid: high(words[3]) as u16,
            global_header: flags & GLOBAL != 0,
            immediate,
            solicited,
        }),
        Kind::Acknowledge => Body::Answer(Answer::Acknowledge),
        Kind::Ready => Body::Answer(Answer::Ready),
        Kind::Refuse => Body::Answer(Answer::Refuse(refusal_of(immediate?)?)),
        Kind::ReadResponse => Body::Answer(Answer::ReadResponse(fragment(words[3])?)),
        Kind::AtomicResponse => Body::Answer(Answer::AtomicResponse { old: words[3] }),
    };
    Some((Entry::Message(Message { base, body }), count, payload))
}

/// How far a flush goes, as a number.
fn how_far(placement: Placement, selectivity: Selectivity) -> u32 {
    u32::from_le_bytes([placement.bits(), selectivity as u8, 0, 0])
}

/// What such a number says; `None` if it says nothing.
#[cold]
fn placement_and_selectivity(number: u32) -> Option<(Placement, Selectivity)> {
    let [placement, selectivity, 0, 0] = number.to_le_bytes() else { return None };
    Some((Placement::from_bits(placement)?, Selectivity::from_number(selectivity)?))
}

/// The shared receive queue that the last word of a header names; `None` if there is no such number, or the header is not that of
/// a request.
#[cold]
fn queue_behind(kind: Kind, word: u64) -> Option<QueueName> {
    let named = kind.is_request() && (1..=QpNumber::MASK.into()).contains(&word);
    named.then(|| QueueName::of(SrqNumber(word as u32)))
}

#[cfg(test)]
mod tests;
