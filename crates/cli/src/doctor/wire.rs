//! Who has opened what packets from other hosts come to: UDP port 4791, RoCEv2's.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nonic_roce::PORT;

use super::report::Line;

const NAME: &str = "UDP port 4791";

/// A socket that has the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    address: IpAddr,
    user: u32,
    inode: u64,
}

/// What the kernel lists, and whose it is.
pub(super) fn examine() -> Line {
    let listed = |path: &str| read(&fs::read_to_string(path).unwrap_or_default());
    let mut open = listed("/proc/net/udp");
    open.extend(listed("/proc/net/udp6"));
    let owners = if open.is_empty() { BTreeMap::new() } else { owners(&open) };
    describe(&open, &owners, nonic_sys::effective_user())
}

fn describe(open: &[Open], owners: &BTreeMap<u64, u32>, own: u32) -> Line {
    if open.is_empty() {
        return Line::ok(
            NAME,
            "closed: no program of this network namespace talks with other hosts by RoCEv2",
        );
    }
    let (mut text, mut foreign) = (String::from("open at "), false);
    for (index, Open { address, user, inode }) in open.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = match (address.is_unspecified(), address) {
            (true, _) => write!(text, "{comma}every address"),
            (false, address) => write!(text, "{comma}{address}"),
        };
        let _ = match owners.get(inode) {
            Some(process) => write!(text, " by process {process} of user {user}"),
            None => write!(text, " by user {user}"),
        };
        // Groups are everybody's: each who has joined gets a copy.
        foreign |= *user != own && !address.is_multicast();
    }
    if !foreign {
        return Line::ok(NAME, text);
    }
    Line::note(NAME, format!("{text}; queue pairs of another user reach no other host from there"))
        .fix("give each user an address of his own: nonic opens only the addresses that a program uses")
}

/// The sockets of the port in the kernel's list of UDP sockets.
fn read(text: &str) -> Vec<Open> {
    text.lines().filter_map(read_line).collect()
}

fn read_line(line: &str) -> Option<Open> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    let open = Open {
        address: read_address(address)?,
        user: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    };
    (u16::from_str_radix(port, 16).ok()? == PORT).then_some(open)
}

/// An address as the kernel lists it: words of 32 bits, each as the machine reads it from network order.
fn read_address(digits: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = digits.get(8 * index..8 * index + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match digits.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let bytes: [u8; 16] = words.try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// The processes that have these sockets, as far as this user may see.
fn owners(open: &[Open]) -> BTreeMap<u64, u32> {
    let links: BTreeMap<_, _> =
        open.iter().map(|open| (format!("socket:[{}]", open.inode), open.inode)).collect();
    let mut owners = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        for link in descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()) {
            if let Some(inode) = link.to_str().and_then(|link| links.get(link)) {
                owners.insert(*inode, process);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  271: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4711 2 0000000000000000 0
  272: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0
  273: 000080FE00000000FF00FCFE010000FE:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4713 2 0000000000000000 0
  274: cut off
";

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_of_the_port_are_found_in_the_list_with_address_and_user() {
        let open = read(LISTED);
        let expected = [("127.0.0.1", 1000, 4711), ("fe80::fefc:ff:fe00:1", 0, 4713)];
        let expected =
            expected.map(|(address, user, inode)| Open { address: address.parse().unwrap(), user, inode });
        assert_eq!(open, expected);
    }

    #[test]
    fn another_user_at_the_port_is_noted_and_the_own_one_is_named() {
        let open = Open { address: Ipv4Addr::LOCALHOST.into(), user: 1000, inode: 5 };
        let owners = BTreeMap::from([(5, 77)]);
        let shown = |open: &[Open], user| format!("{:?}", describe(open, &owners, user));
        assert!(shown(&[], 0).contains("closed"));
        let own = shown(&[open], 1000);
        assert!(own.contains("open at 127.0.0.1 by process 77 of user 1000") && own.contains("Ok"), "{own}");
        let group = Open { address: "239.1.2.3".parse().unwrap(), user: 2000, inode: 7 };
        let own = shown(&[open, group], 1000);
        assert!(own.contains("239.1.2.3 by user 2000") && own.contains("Ok"), "{own}");
        let other = shown(&[open, Open { address: Ipv4Addr::UNSPECIFIED.into(), inode: 6, ..open }], 2000);
        assert!(other.contains("every address by user 1000; queue pairs of another user"), "{other}");
        assert!(other.contains("Note"), "{other}");
    }
}
