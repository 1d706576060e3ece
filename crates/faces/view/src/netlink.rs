//! What the kernel's RDMA subsystem would say of the devices by netlink (`NETLINK_RDMA`, rdma-core's rdma_netlink.h): for `rdma` of iproute2,
//! and for libraries that ask whether devices belong to network namespaces. Pure: nothing is sent here.
//!
//! Of the subsystem's commands those that read what a device, a port or the whole is are answered; the others say `EOPNOTSUPP`. Numbers are
//! in the order of the machine's bytes, and everything begins at a multiple of four.

use nonic_verbs::abi::{IBV_LINK_LAYER_ETHERNET, IBV_NODE_CA};
use nonic_verbs::identity::FIRMWARE;

use crate::facts::DeviceFacts;

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Kinds of messages that every subsystem has, the first of its own, and flags (`linux/netlink.h`).
const FIRST: u16 = libc::NLMSG_MIN_TYPE as u16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
const DONE: u16 = libc::NLMSG_DONE as u16;
const FLAG_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const FLAG_MULTI: u16 = libc::NLM_F_MULTI as u16;
const FLAG_ACK: u16 = libc::NLM_F_ACK as u16;
const FLAG_DUMP: u16 = libc::NLM_F_DUMP as u16;

/// `RDMA_NL_NLDEV`, and its commands `RDMA_NLDEV_CMD_GET`, `_PORT_GET`, `_SYS_GET`.
const CLIENT: u16 = 5 << 10;
const GET: u16 = CLIENT + 1;
const PORT_GET: u16 = CLIENT + 5;
const SYS_GET: u16 = CLIENT + 6;

/// `enum rdma_nldev_attr`.
mod attribute {
    pub(super) const DEV_INDEX: u16 = 1;
    pub(super) const DEV_NAME: u16 = 2;
    pub(super) const PORT_INDEX: u16 = 3;
    pub(super) const CAP_FLAGS: u16 = 4;
    pub(super) const FW_VERSION: u16 = 5;
    pub(super) const NODE_GUID: u16 = 6;
    pub(super) const SYS_IMAGE_GUID: u16 = 7;
    pub(super) const SUBNET_PREFIX: u16 = 8;
    pub(super) const LID: u16 = 9;
    pub(super) const SM_LID: u16 = 10;
    pub(super) const LMC: u16 = 11;
    pub(super) const PORT_STATE: u16 = 12;
    pub(super) const PORT_PHYS_STATE: u16 = 13;
    pub(super) const DEV_NODE_TYPE: u16 = 14;
    pub(super) const NDEV_INDEX: u16 = 50;
    pub(super) const NDEV_NAME: u16 = 51;
    pub(super) const NETNS_MODE: u16 = 66;
    pub(super) const DEV_PROTOCOL: u16 = 67;
    pub(super) const DEV_DIM: u16 = 84;
    pub(super) const COPY_ON_FORK: u16 = 93;
    pub(super) const PRIVILEGED_QKEY_MODE: u16 = 96;
}

/// A request, as far as it concerns who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    attributes: &'a [u8],
    /// All of it, header and all.
    whole: &'a [u8],
}

/// What there is to say to a program at this port that has sent these messages: nothing to what is none.
pub(crate) fn answer(mut messages: &[u8], port: u32, devices: &[DeviceFacts]) -> Vec<u8> {
    let mut reply = Reply { bytes: Vec::new(), port };
    while let Some((request, rest)) = next_request(messages) {
        messages = rest;
        // As the kernel: what is no request, or one of nobody's, is passed over.
        if request.flags & FLAG_REQUEST == 0 || request.kind < FIRST {
            continue;
        }
        let dumps = request.flags & FLAG_DUMP == FLAG_DUMP;
        match reply.carry_out(&request, dumps, devices) {
            Ok(()) if dumps => reply.message(&request, DONE, FLAG_MULTI, |reply| reply.word(0)),
            Ok(()) if request.flags & FLAG_ACK == 0 => {}
            outcome => reply.error(&request, outcome.err().unwrap_or(0)),
        }
    }
    reply.bytes
}

/// Of an answer, the messages that go in the next datagram: as many as fit into `room` bytes, and at least one.
pub(crate) fn first_datagram(answer: &[u8], room: usize) -> &[u8] {
    let mut end = 0;
    while let Some((message, _)) = next_request(&answer[end..]) {
        let next = (end + message.whole.len()).next_multiple_of(4).min(answer.len());
        if end > 0 && next > room {
            break;
        }
        end = next;
    }
    &answer[..end]
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(place..place + 2)?.try_into().ok()?))
}

/// The first of several messages, and the others.
fn next_request(bytes: &[u8]) -> Option<(Request<'_>, &[u8])> {
    let length = word(bytes, 0)? as usize;
    let whole = bytes.get(..length)?;
    let request = Request {
        kind: half(whole, 4)?,
        flags: half(whole, 6)?,
        sequence: word(whole, 8)?,
        attributes: whole.get(HEADER..)?,
        whole,
    };
    Some((request, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

impl Request<'_> {
    /// The value of an attribute.
    fn value(&self, wanted: u16) -> Option<&[u8]> {
        let mut left = self.attributes;
        loop {
            let (length, kind) = (usize::from(half(left, 0)?).max(4), half(left, 2)?);
            let attribute = left.get(..length)?;
            if kind == wanted {
                return Some(&attribute[4..]);
            }
            left = left.get(length.next_multiple_of(4)..)?;
        }
    }

    /// The number that an attribute gives.
    fn number(&self, wanted: u16) -> Option<u32> {
        word(self.value(wanted)?, 0)
    }
}

struct Reply {
    bytes: Vec<u8>,
    port: u32,
}

impl Reply {
    /// What a request asks for; a negative errno if there is no such thing.
    fn carry_out(&mut self, request: &Request<'_>, dumps: bool, devices: &[DeviceFacts]) -> Result<(), i32> {
        let flags = if dumps { FLAG_MULTI } else { 0 };
        let index = request.number(attribute::DEV_INDEX);
        let named = || devices.iter().find(|device| Some(device.index) == index);
        match request.kind {
            SYS_GET => self.message(request, SYS_GET, flags, Self::system),
            GET if dumps => {
                for device in devices {
                    self.message(request, GET, flags, |reply| reply.device(device));
                }
            }
            GET => {
                index.ok_or(-libc::EINVAL)?;
                let device = named().ok_or(-libc::EINVAL)?;
                self.message(request, GET, flags, |reply| reply.device(device));
            }
            PORT_GET => {
                let port = request.number(attribute::PORT_INDEX);
                let device = named().ok_or(-libc::EINVAL)?;
                if !dumps && port != Some(1) {
                    return Err(-libc::EINVAL);
                }
                self.message(request, PORT_GET, flags, |reply| reply.port(device));
            }
            _ => return Err(-libc::EOPNOTSUPP),
        }
        Ok(())
    }

    /// A message whose content `fill` adds.
    fn message(&mut self, request: &Request<'_>, kind: u16, flags: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.word(0);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.word(request.sequence);
        self.word(self.port);
        fill(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// How a request ended, with its header.
    fn error(&mut self, request: &Request<'_>, errno: i32) {
        self.message(request, ERROR, 0, |reply| {
            reply.word(errno.cast_unsigned());
            reply.bytes.extend(&request.whole[..HEADER]);
        });
    }

    fn word(&mut self, value: u32) {
        self.bytes.extend(value.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend((4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat());
    }

    fn byte(&mut self, kind: u16, value: u8) {
        self.attribute(kind, &[value]);
    }

    fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    fn long(&mut self, kind: u16, value: u64) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    /// Devices are seen from every network namespace, memory is copied at a fork, and anybody may use the privileged Q_Keys.
    fn system(&mut self) {
        self.byte(attribute::NETNS_MODE, 1);
        self.byte(attribute::COPY_ON_FORK, 1);
        self.byte(attribute::PRIVILEGED_QKEY_MODE, 1);
    }

    fn name(&mut self, device: &DeviceFacts) {
        self.number(attribute::DEV_INDEX, device.index);
        self.text(attribute::DEV_NAME, &device.name);
        // Of a device, how many ports it has; of a port, its number.
        self.number(attribute::PORT_INDEX, 1);
    }

    fn device(&mut self, device: &DeviceFacts) {
        self.name(device);
        self.text(attribute::FW_VERSION, FIRMWARE);
        self.long(attribute::NODE_GUID, device.guid);
        self.long(attribute::SYS_IMAGE_GUID, device.guid);
        self.byte(attribute::DEV_NODE_TYPE, IBV_NODE_CA as u8);
        self.byte(attribute::DEV_DIM, 0);
        self.text(attribute::DEV_PROTOCOL, if is_ethernet(device) { "roce" } else { "ib" });
    }

    fn port(&mut self, device: &DeviceFacts) {
        let port = &device.port;
        self.name(device);
        if is_ethernet(device) {
            if let Some((index, name)) = interface(device) {
                self.number(attribute::NDEV_INDEX, index);
                self.text(attribute::NDEV_NAME, name);
            }
        } else {
            self.long(attribute::CAP_FLAGS, port.port_cap_flags.into());
            let own = device.gids.iter().find(|entry| entry.index == 0).map_or([0; 16], |entry| entry.gid);
            let prefix = own.first_chunk().map_or(0, |prefix| u64::from_be_bytes(*prefix));
            self.long(attribute::SUBNET_PREFIX, prefix);
            self.number(attribute::LID, port.lid.into());
            self.number(attribute::SM_LID, port.sm_lid.into());
            self.byte(attribute::LMC, port.lmc);
        }
        self.byte(attribute::PORT_STATE, port.state as u8);
        self.byte(attribute::PORT_PHYS_STATE, port.phys_state);
    }
}

fn is_ethernet(device: &DeviceFacts) -> bool {
    device.port.link_layer == IBV_LINK_LAYER_ETHERNET
}

/// The interface that a device lies under, the first of them.
fn interface(device: &DeviceFacts) -> Option<(u32, &str)> {
    let name = device.interfaces.first()?;
    let (index, name) = device.interface_names.iter().find(|(_, known)| known == name)?;
    Some((*index, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::device;

    /// A request with numbers as its attributes.
    fn request(kind: u16, flags: u16, numbers: &[(u16, u32)]) -> Vec<u8> {
        let mut reply = Reply { bytes: Vec::new(), port: 0 };
        let from = Request { kind, flags, sequence: 7, attributes: &[], whole: &[] };
        reply.message(&from, kind, FLAG_REQUEST | flags, |reply| {
            numbers.iter().for_each(|(kind, number)| reply.number(*kind, *number));
        });
        reply.bytes
    }

    /// The kinds of the messages of an answer; each is for the port and the request that asked.
    fn kinds(mut answer: &[u8]) -> Vec<u16> {
        let mut kinds = Vec::new();
        while let Some((message, rest)) = next_request(answer) {
            assert_eq!((message.sequence, word(message.whole, 12)), (7, Some(99)));
            kinds.push(message.kind);
            answer = rest;
        }
        assert!(answer.is_empty(), "an answer is messages and nothing else");
        kinds
    }

    /// How a request ended that is answered with an error or an acknowledgement at last.
    fn errno(answer: &[u8]) -> i32 {
        word(answer, answer.len() - HEADER - 4).expect("a number").cast_signed()
    }

    /// The bytes of an attribute of the first message.
    fn value(answer: &[u8], wanted: u16) -> Option<Vec<u8>> {
        let (message, _) = next_request(answer)?;
        message.value(wanted).map(<[u8]>::to_vec)
    }

    #[test]
    fn devices_are_listed_with_their_names_and_the_list_ends() {
        let all = [device(false), DeviceFacts { index: 1, name: "nonic1".to_owned(), ..device(true) }];
        let listed = answer(&request(GET, FLAG_DUMP, &[]), 99, &all);
        assert_eq!(kinds(&listed), [GET, GET, DONE]);
        assert_eq!(value(&listed, attribute::DEV_NAME).as_deref(), Some(&b"nonic0\0"[..]));
        assert_eq!(value(&listed, attribute::DEV_PROTOCOL).as_deref(), Some(&b"ib\0"[..]));
        let guid = 0x0200_1122_3344_5501_u64;
        assert_eq!(value(&listed, attribute::NODE_GUID), Some(guid.to_ne_bytes().to_vec()));
        assert_eq!(kinds(&answer(&request(GET, FLAG_DUMP, &[]), 99, &[])), [DONE]);
    }

    #[test]
    fn a_long_list_goes_in_datagrams_of_whole_messages() {
        let all: Vec<_> = (0..64).map(|index| DeviceFacts { index, ..device(false) }).collect();
        let listed = answer(&request(GET, FLAG_DUMP, &[]), 99, &all);
        let (mut left, mut seen) = (&listed[..], Vec::new());
        while !left.is_empty() {
            let datagram = first_datagram(left, 1000);
            assert!((1..=1000).contains(&datagram.len()));
            seen.extend(kinds(datagram));
            left = &left[datagram.len()..];
        }
        assert_eq!((seen.len(), seen.last()), (65, Some(&DONE)));
        assert_eq!(kinds(first_datagram(&listed, 1)), [GET]);
    }

    #[test]
    fn a_port_is_asked_for_by_number_and_acknowledged_if_that_was_wanted() {
        let port = |flags, index, port| {
            let numbers = [(attribute::DEV_INDEX, index), (attribute::PORT_INDEX, port)];
            answer(&request(PORT_GET, flags, &numbers), 99, &[device(false)])
        };
        let found = port(FLAG_ACK, 0, 1);
        assert_eq!((kinds(&found), errno(&found)), (vec![PORT_GET, ERROR], 0));
        assert_eq!(value(&found, attribute::LID), Some(1u32.to_ne_bytes().to_vec()));
        assert_eq!(value(&found, attribute::NDEV_NAME), None);
        assert_eq!(kinds(&port(0, 0, 1)), [PORT_GET]);
        for wrong in [port(0, 0, 2), port(0, 3, 1)] {
            assert_eq!((kinds(&wrong), errno(&wrong)), (vec![ERROR], -libc::EINVAL));
        }
    }

    #[test]
    fn an_ethernet_port_names_its_interface_and_has_no_lid() {
        let numbers = [(attribute::DEV_INDEX, 0), (attribute::PORT_INDEX, 1)];
        let found = answer(&request(PORT_GET, 0, &numbers), 99, &[device(true)]);
        assert_eq!(value(&found, attribute::NDEV_NAME).as_deref(), Some(&b"eth0\0"[..]));
        assert_eq!(value(&found, attribute::NDEV_INDEX), Some(2u32.to_ne_bytes().to_vec()));
        assert_eq!(value(&found, attribute::LID), None);
    }

    #[test]
    fn what_is_not_known_is_refused_and_what_is_no_request_gets_no_answer() {
        let unknown = answer(&request(CLIENT + 2, FLAG_ACK, &[]), 99, &[device(false)]);
        assert_eq!((kinds(&unknown), errno(&unknown)), (vec![ERROR], -libc::EOPNOTSUPP));
        let good = request(SYS_GET, 0, &[]);
        for cut in 0..good.len() {
            assert!(answer(&good[..cut], 99, &[device(false)]).is_empty(), "{cut} bytes");
        }
        let mut lies = request(PORT_GET, 0, &[(attribute::DEV_INDEX, 0)]);
        lies[HEADER..HEADER + 2].copy_from_slice(&u16::MAX.to_ne_bytes());
        assert_eq!(errno(&answer(&lies, 99, &[device(false)])), -libc::EINVAL);
        lies[HEADER..HEADER + 2].copy_from_slice(&0u16.to_ne_bytes());
        assert_eq!(kinds(&answer(&lies, 99, &[device(false)])).len(), 1);
    }
}
