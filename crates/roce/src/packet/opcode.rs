//! Opcodes (IBTA vol. 1, 9.2.1, table 38; annex A14 for XRC; annex A17 for CNP; annex A19 for FLUSH): which operation has which, and which headers.

use nonic_protocol::{AtomicChange, AtomicRequest, Key, QpNumber, RemoteRange, SrqNumber};

use super::acknowledgement::Aeth;
use super::body::{
    Answer, Body, Datagram, Flush, FlushCheck, Part, ReadPart, Request, Reth, Tail, UnreliableRequest,
};
use super::cursor::{Reader, Writer};
use crate::malformed::Malformed;

const RELIABLE: u8 = 0x00;
const UNRELIABLE: u8 = 0x20;
const DATAGRAM: u8 = 0x60;
const EXTENDED: u8 = 0xa0;
/// Congestion notification packet.
const CONGESTION: u8 = 0x81;
/// Bytes that a congestion notification has behind its base header; they mean nothing.
pub(super) const CONGESTION_PAYLOAD: usize = 16;

const SEND: [u8; 4] = [0x00, 0x01, 0x02, 0x04];
const SEND_IMMEDIATE: [u8; 2] = [0x03, 0x05];
const SEND_INVALIDATE: [u8; 2] = [0x16, 0x17];
const WRITE: [u8; 4] = [0x06, 0x07, 0x08, 0x0a];
const WRITE_IMMEDIATE: [u8; 2] = [0x09, 0x0b];
const READ: u8 = 0x0c;
const READ_RESPONSE: [u8; 4] = [0x0d, 0x0e, 0x0f, 0x10];
const ACKNOWLEDGE: u8 = 0x11;
const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
const COMPARE_SWAP: u8 = 0x13;
const FETCH_ADD: u8 = 0x14;
pub(super) const FLUSH: u8 = 0x1c;
/// Where in the word of a FETH its placement and its selectivity are (annex A19.3.1).
const PLACEMENT: u32 = 0b1111;
const SELECTIVITY_SHIFT: u32 = 4;
const SELECTIVITY: u32 = 0b11;

impl Body {
    /// Its opcode.
    pub(super) fn opcode(&self) -> u8 {
        match self {
            Self::Request(request) => RELIABLE | request.code(),
            Self::Answer(answer) => RELIABLE | answer.code(),
            Self::ExtendedRequest(_, request) => EXTENDED | request.code(),
            Self::ExtendedAnswer(answer) => EXTENDED | answer.code(),
            Self::Unreliable(UnreliableRequest::Send(part)) => {
                UNRELIABLE | send_code(part, |immediate| immediate.map(|_| SEND_IMMEDIATE))
            }
            Self::Unreliable(UnreliableRequest::Write(part)) => UNRELIABLE | write_code(part),
            Self::Datagram(datagram) => DATAGRAM | if datagram.immediate.is_some() { 5 } else { 4 },
            Self::Congestion => CONGESTION,
        }
    }

    /// Reads the headers that follow an opcode.
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if opcode == CONGESTION {
            return Ok(Self::Congestion);
        }
        let (service, code) = (opcode & 0xe0, opcode & 0x1f);
        let body = match service {
            RELIABLE => match Answer::parse(code, reader)? {
                Some(answer) => Some(Self::Answer(answer)),
                None => Request::parse(code, reader)?.map(Self::Request),
            },
            EXTENDED => match Answer::parse(code, reader)? {
                Some(answer) => Some(Self::ExtendedAnswer(answer)),
                None if !Request::has(code) => None,
                None => {
                    let queue = SrqNumber::masked(u32::from_be_bytes(reader.take("XRCETH")?));
                    Request::parse(code, reader)?.map(|request| Self::ExtendedRequest(queue, request))
                }
            },
            UNRELIABLE => unreliable(code, reader)?.map(Self::Unreliable),
            DATAGRAM if matches!(code, 4 | 5) => {
                let q_key = u32::from_be_bytes(reader.take("DETH")?);
                let source = QpNumber::masked(u32::from_be_bytes(reader.take("DETH")?));
                let immediate = if code == 5 { Some(immediate(reader)?) } else { None };
                Some(Self::Datagram(Datagram { q_key, source, immediate }))
            }
            _ => None,
        };
        body.ok_or(Malformed::Opcode { opcode })
    }

    /// Writes the headers that follow its opcode.
    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Request(request) => request.emit(writer),
            Self::ExtendedRequest(queue, request) => {
                writer.put(&SrqNumber::masked(queue.0).0.to_be_bytes());
                request.emit(writer);
            }
            Self::Answer(answer) | Self::ExtendedAnswer(answer) => answer.emit(writer),
            Self::Unreliable(UnreliableRequest::Send(Part::Last(tail) | Part::Only((), tail))) => {
                put_immediate(writer, *tail);
            }
            Self::Unreliable(UnreliableRequest::Send(_)) => {}
            Self::Unreliable(UnreliableRequest::Write(part)) => put_write(writer, part),
            Self::Datagram(Datagram { q_key, source, immediate }) => {
                writer.put(&q_key.to_be_bytes());
                writer.put(&QpNumber::masked(source.0).0.to_be_bytes());
                put_immediate(writer, *immediate);
            }
            Self::Congestion => writer.put(&[0; CONGESTION_PAYLOAD]),
        }
    }

    /// Whether bytes of a message come with it.
    pub(super) fn has_payload(&self) -> bool {
        match self {
            Self::Request(request) | Self::ExtendedRequest(_, request) => {
                matches!(request, Request::Send(_) | Request::Write(_))
            }
            Self::Answer(answer) | Self::ExtendedAnswer(answer) => matches!(answer, Answer::Read(_)),
            Self::Unreliable(_) | Self::Datagram(_) => true,
            Self::Congestion => false,
        }
    }

    /// Whether another packet of the same message follows.
    pub(super) fn is_followed(&self) -> bool {
        match self {
            Self::Request(request) | Self::ExtendedRequest(_, request) => !request.ends(),
            Self::Answer(Answer::Read(part)) | Self::ExtendedAnswer(Answer::Read(part)) => !part.ends(),
            Self::Unreliable(UnreliableRequest::Send(part)) => !part.ends(),
            Self::Unreliable(UnreliableRequest::Write(part)) => !part.ends(),
            _ => false,
        }
    }
}

impl Request {
    fn code(&self) -> u8 {
        match self {
            Self::Send(part) => send_code(part, |tail| match tail {
                Tail::Plain => None,
                Tail::Immediate(_) => Some(SEND_IMMEDIATE),
                Tail::Invalidate(_) => Some(SEND_INVALIDATE),
            }),
            Self::Write(part) => write_code(part),
            Self::Read(_) => READ,
            Self::Atomic(AtomicRequest { change: AtomicChange::CompareSwap { .. }, .. }) => COMPARE_SWAP,
            Self::Atomic(AtomicRequest { change: AtomicChange::FetchAdd { .. }, .. }) => FETCH_ADD,
            Self::Flush(_) => FLUSH,
        }
    }

    /// Whether this is the code of one.
    fn has(code: u8) -> bool {
        matches!(code, 0x00..=READ | COMPARE_SWAP | FETCH_ADD | 0x16 | 0x17 | FLUSH)
    }

    fn parse(code: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if let Some(part) = send_part(code, Tail::Plain) {
            return Ok(Some(Self::Send(part)));
        }
        if let Some(is_only) = ending(code, SEND_IMMEDIATE) {
            let tail = Tail::Immediate(immediate(reader)?);
            return Ok(Some(Self::Send(end(is_only, (), tail))));
        }
        if let Some(is_only) = ending(code, SEND_INVALIDATE) {
            let tail = Tail::Invalidate(Key(u32::from_be_bytes(reader.take("IETH")?)));
            return Ok(Some(Self::Send(end(is_only, (), tail))));
        }
        if let Some(part) = write_part(code, reader)? {
            return Ok(Some(Self::Write(part)));
        }
        Ok(match code {
            READ => Some(Self::Read(reth(reader)?)),
            FLUSH => {
                let feth = u32::from_be_bytes(reader.take("FETH")?);
                Some(Self::Flush(Flush {
                    reth: reth(reader)?,
                    placement: (feth & PLACEMENT) as u8,
                    selectivity: (feth >> SELECTIVITY_SHIFT & SELECTIVITY) as u8,
                    check: FlushCheck::Once,
                }))
            }
            COMPARE_SWAP | FETCH_ADD => {
                let remote = remote(reader, "AtomicETH")?;
                let swap = u64::from_be_bytes(reader.take("AtomicETH")?);
                let compare = u64::from_be_bytes(reader.take("AtomicETH")?);
                let change = if code == FETCH_ADD {
                    AtomicChange::FetchAdd { add: swap }
                } else {
                    AtomicChange::CompareSwap { compare, swap }
                };
                Some(Self::Atomic(AtomicRequest { remote, change }))
            }
            _ => None,
        })
    }

    fn emit(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Send(Part::Last(tail) | Part::Only((), tail)) => match *tail {
                Tail::Plain => {}
                Tail::Immediate(immediate) => put_immediate(writer, Some(immediate)),
                Tail::Invalidate(key) => writer.put(&key.0.to_be_bytes()),
            },
            Self::Send(_) => {}
            Self::Write(part) => put_write(writer, part),
            Self::Read(reth) => put_reth(writer, reth),
            Self::Flush(Flush { reth, placement, selectivity, .. }) => {
                let selectivity = (u32::from(*selectivity) & SELECTIVITY) << SELECTIVITY_SHIFT;
                writer.put(&(u32::from(*placement) & PLACEMENT | selectivity).to_be_bytes());
                put_reth(writer, reth);
            }
            Self::Atomic(AtomicRequest { remote, change }) => {
                let (swap, compare) = match *change {
                    AtomicChange::CompareSwap { compare, swap } => (swap, compare),
                    AtomicChange::FetchAdd { add } => (add, 0),
                };
                put_remote(writer, remote);
                writer.put(&swap.to_be_bytes());
                writer.put(&compare.to_be_bytes());
            }
        }
    }
}

impl Answer {
    fn code(&self) -> u8 {
        match self {
            Self::Acknowledge(_) => ACKNOWLEDGE,
            Self::Atomic(..) => ATOMIC_ACKNOWLEDGE,
            Self::Read(ReadPart::First(_)) => READ_RESPONSE[0],
            Self::Read(ReadPart::Middle) => READ_RESPONSE[1],
            Self::Read(ReadPart::Last(_)) => READ_RESPONSE[2],
            Self::Read(ReadPart::Only(_)) => READ_RESPONSE[3],
        }
    }

    fn parse(code: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let mut aeth = || Aeth::parse(&reader.take("AETH")?);
        Ok(Some(match code {
            ACKNOWLEDGE => Self::Acknowledge(aeth()?),
            ATOMIC_ACKNOWLEDGE => {
                let aeth = aeth()?;
                Self::Atomic(aeth, u64::from_be_bytes(reader.take("AtomicAckETH")?))
            }
            _ if code == READ_RESPONSE[0] => Self::Read(ReadPart::First(aeth()?)),
            _ if code == READ_RESPONSE[1] => Self::Read(ReadPart::Middle),
            _ if code == READ_RESPONSE[2] => Self::Read(ReadPart::Last(aeth()?)),
            _ if code == READ_RESPONSE[3] => Self::Read(ReadPart::Only(aeth()?)),
            _ => return Ok(None),
        }))
    }

    fn emit(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Acknowledge(aeth) => writer.put(&aeth.emit()),
            Self::Read(part) => {
                if let Some(aeth) = part.aeth() {
                    writer.put(&aeth.emit());
                }
            }
            Self::Atomic(aeth, old) => {
                writer.put(&aeth.emit());
                writer.put(&old.to_be_bytes());
            }
        }
    }
}

fn unreliable(code: u8, reader: &mut Reader<'_>) -> Result<Option<UnreliableRequest>, Malformed> {
    if let Some(part) = send_part(code, None) {
        return Ok(Some(UnreliableRequest::Send(part)));
    }
    if let Some(is_only) = ending(code, SEND_IMMEDIATE) {
        return Ok(Some(UnreliableRequest::Send(end(is_only, (), Some(immediate(reader)?)))));
    }
    Ok(write_part(code, reader)?.map(UnreliableRequest::Write))
}

/// The code of a packet of a send; `special` are those of last and only packets that say more.
fn send_code<L>(part: &Part<(), L>, special: impl Fn(&L) -> Option<[u8; 2]>) -> u8 {
    match part {
        Part::First(()) => SEND[0],
        Part::Middle => SEND[1],
        Part::Last(tail) => special(tail).map_or(SEND[2], |codes| codes[0]),
        Part::Only((), tail) => special(tail).map_or(SEND[3], |codes| codes[1]),
    }
}

fn write_code(part: &Part<Reth, Option<u32>>) -> u8 {
    match part {
        Part::First(_) => WRITE[0],
        Part::Middle => WRITE[1],
        Part::Last(None) => WRITE[2],
        Part::Only(_, None) => WRITE[3],
        Part::Last(Some(_)) => WRITE_IMMEDIATE[0],
        Part::Only(_, Some(_)) => WRITE_IMMEDIATE[1],
    }
}

/// The packet of a send with this code that says no more.
fn send_part<L>(code: u8, plain: L) -> Option<Part<(), L>> {
    Some(match SEND.iter().position(|send| *send == code)? {
        0 => Part::First(()),
        1 => Part::Middle,
        2 => Part::Last(plain),
        _ => Part::Only((), plain),
    })
}

/// The packet of a write with this code, with its headers.
fn write_part(code: u8, reader: &mut Reader<'_>) -> Result<Option<Part<Reth, Option<u32>>>, Malformed> {
    Ok(Some(match code {
        _ if code == WRITE[0] => Part::First(reth(reader)?),
        _ if code == WRITE[1] => Part::Middle,
        _ if code == WRITE[2] => Part::Last(None),
        _ if code == WRITE[3] => Part::Only(reth(reader)?, None),
        _ if code == WRITE_IMMEDIATE[0] => Part::Last(Some(immediate(reader)?)),
        _ if code == WRITE_IMMEDIATE[1] => Part::Only(reth(reader)?, Some(immediate(reader)?)),
        _ => return Ok(None),
    }))
}

/// Whether a code is the second of the two, for a message of one packet, or the first.
fn ending(code: u8, [last, only]: [u8; 2]) -> Option<bool> {
    (code == last || code == only).then_some(code == only)
}

fn end<F, L>(is_only: bool, first: F, last: L) -> Part<F, L> {
    if is_only { Part::Only(first, last) } else { Part::Last(last) }
}

fn immediate(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    Ok(u32::from_ne_bytes(reader.take("ImmDt")?))
}

fn remote(reader: &mut Reader<'_>, header: &'static str) -> Result<RemoteRange, Malformed> {
    let address = u64::from_be_bytes(reader.take(header)?);
    Ok(RemoteRange { address, key: Key(u32::from_be_bytes(reader.take(header)?)) })
}

fn reth(reader: &mut Reader<'_>) -> Result<Reth, Malformed> {
    let remote = remote(reader, "RETH")?;
    Ok(Reth { remote, length: u32::from_be_bytes(reader.take("RETH")?) })
}

fn put_immediate(writer: &mut Writer<'_>, immediate: Option<u32>) {
    if let Some(immediate) = immediate {
        writer.put(&immediate.to_ne_bytes());
    }
}

fn put_remote(writer: &mut Writer<'_>, remote: &RemoteRange) {
    writer.put(&remote.address.to_be_bytes());
    writer.put(&remote.key.0.to_be_bytes());
}

fn put_reth(writer: &mut Writer<'_>, reth: &Reth) {
    put_remote(writer, &reth.remote);
    writer.put(&reth.length.to_be_bytes());
}

fn put_write(writer: &mut Writer<'_>, part: &Part<Reth, Option<u32>>) {
    if let Part::First(reth) | Part::Only(reth, _) = part {
        put_reth(writer, reth);
    }
    if let Part::Last(immediate) | Part::Only(_, immediate) = part {
        put_immediate(writer, *immediate);
    }
}
