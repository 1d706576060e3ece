//! Finding each other without a daemon: owning a block of queue-pair numbers means owning an abstract socket name, which
//! is unique in a network namespace and vanishes with its owner.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::time::Duration;

use nonic_protocol::QpNumber;
use nonic_sys::{Credentials, PacketSocket, listen_abstract, nap, random_u64};

use crate::layout::{BLOCK_SIZE, VERSION};

/// Blocks that can be claimed of the 24-bit number space. Block 0 holds the numbers 0 and 1, which are never given out, and is
/// left alone.
pub const BLOCKS: u32 = (QpNumber::MASK + 1) / BLOCK_SIZE - 1;

/// A claimed block: whoever connects to its socket reaches the owner of the block's numbers.
#[derive(Debug)]
pub struct Block {
    /// Its number: a queue pair's number divided by [`BLOCK_SIZE`].
    pub number: u32,
    /// Where peers connect.
    pub socket: PacketSocket,
}

/// The beginning of the abstract names of blocks.
fn block_names() -> String {
    format!("nonic.{VERSION}/qp/")
}

/// The abstract name of a block.
pub fn block_name(block: u32) -> String {
    format!("{}{block:03x}", block_names())
}

/// The name of a block in the folder in which other network namespaces are met.
pub fn met_block_name(block: u32) -> String {
    format!("qp.{VERSION}.{block:03x}")
}

/// Claims a block nobody has. The search starts at a random one, so that the numbers of a process that ended are not
/// given to the next one.
pub fn claim_block() -> io::Result<Block> {
    let start = random_u64() % u64::from(BLOCKS);
    for step in 0..u64::from(BLOCKS) {
        let number = ((start + step) % u64::from(BLOCKS)) as u32 + 1;
        match listen_abstract(&block_name(number)) {
            Ok(socket) => return Ok(Block { number, socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    let holders = block_holders();
    Err(io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        format!("every block of queue-pair numbers of this network namespace is held: {holders}"),
    ))
}

/// Connects to the owner of a queue-pair number. `ConnectionRefused` if there is none, `WouldBlock` if it takes no
/// connections.
pub fn connect_owner(number: QpNumber) -> io::Result<PacketSocket> {
    let name = block_name(number.0 / BLOCK_SIZE);
    // Whoever connects in a loop keeps the owner's queue full; the owner empties it many times in so long.
    for _ in 1..CONNECT_TRIES {
        match PacketSocket::connect_abstract(&name) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                nap(CONNECT_PAUSE);
            }
            other => return other,
        }
    }
    PacketSocket::connect_abstract(&name)
}

const CONNECT_TRIES: u32 = 8;
const CONNECT_PAUSE: Duration = Duration::from_micros(50);

/// Who holds blocks of queue-pair numbers in this network namespace: anybody can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockHolders {
    /// Processes, as the kernel says, and how many blocks each holds; those with most first.
    pub known: Vec<(Credentials, usize)>,
    /// Blocks of processes that take no connections, so that nobody can be asked who they are.
    pub unknown: usize,
}

/// Asks the kernel who holds which block.
pub fn block_holders() -> BlockHolders {
    match held_blocks(&block_names()) {
        Some(held) => ask_holders(held, true),
        None => ask_holders(1..=BLOCKS, false),
    }
}

/// Asks for some blocks, which are all held, or of which some may be.
fn ask_holders(blocks: impl IntoIterator<Item = u32>, are_held: bool) -> BlockHolders {
    let mut holders = BlockHolders::default();
    for block in blocks {
        let peer = PacketSocket::connect_abstract(&block_name(block)).and_then(|socket| socket.peer());
        let credentials = match peer {
            Ok(credentials) => credentials,
            Err(error) if !are_held && error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(_) => {
                holders.unknown += 1;
                continue;
            }
        };
        match holders.known.iter_mut().find(|(known, _)| *known == credentials) {
            Some((_, count)) => *count += 1,
            None => holders.known.push((credentials, 1)),
        }
    }
    holders.known.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    holders
}

/// The blocks of which somebody has the name that begins so and ends with the block's number, as [`block_name`] has it: from the kernel's
/// list of Unix sockets; `None` where that is hidden.
pub fn held_blocks(names: &str) -> Option<BTreeSet<u32>> {
    let list = std::fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    let prefix = format!("@{names}");
    // What was accepted from a listening socket stands there under the same name.
    let blocks = list.lines().filter_map(|line| line.rsplit_once(&prefix)?.1.get(..3));
    Some(blocks.filter_map(|digits| u32::from_str_radix(digits, 16).ok()).collect())
}

impl BlockHolders {
    /// Blocks that are held.
    pub fn count(&self) -> usize {
        self.unknown + self.known.iter().map(|(_, count)| count).sum::<usize>()
    }
}

impl fmt::Display for BlockHolders {
    /// The most important ones in one line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 4;
        let named = self
            .known
            .iter()
            .take(NAMED)
            .map(|(holder, count)| format!("{count} by process {} of user {}", holder.pid, holder.uid));
        let rest: usize = self.known.iter().skip(NAMED).map(|(_, count)| count).sum();
        let rest = (rest > 0).then(|| format!("{rest} by {} others", self.known.len() - NAMED));
        let unknown =
            (self.unknown > 0).then(|| format!("{} by processes that take no connections", self.unknown));
        let parts: Vec<_> = named.chain(rest).chain(unknown).collect();
        formatter.write_str(if parts.is_empty() { "none" } else { "" })?;
        formatter.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_block_is_said_by_the_kernel_and_not_by_the_holder() {
        let own = Credentials { pid: std::process::id() as i32, uid: nonic_sys::effective_user() };
        let held = |holders: &BlockHolders| {
            holders.known.iter().find(|(holder, _)| *holder == own).map_or(0, |(_, count)| *count)
        };
        let before = block_holders();
        let blocks = [claim_block().unwrap(), claim_block().unwrap()];
        // Others of these tests claim blocks of this process meanwhile.
        let during = block_holders();
        assert!(held(&during) >= 2, "{before:?}, {during:?}");
        assert!(during.to_string().contains(&format!("by process {} of user {}", own.pid, own.uid)));
        assert!(during.count() >= 2);
        drop(blocks);
    }

    #[test]
    fn names_that_nobody_has_are_not_counted_where_the_kernel_does_not_list_them() {
        let block = claim_block().unwrap();
        let beside = if block.number > 1 { block.number - 1 } else { block.number + 1 };
        let shown = ask_holders([block.number], false);
        assert_eq!((shown.known.len(), shown.unknown), (1, 0));
        let all = ask_holders(1..=BLOCKS, false);
        assert!(all.unknown < BLOCKS as usize / 2, "{all}");
        assert_eq!(ask_holders([beside], true).count(), 1);
    }

    #[test]
    fn holders_fit_in_a_line() {
        let holder = |pid| Credentials { pid, uid: 7 };
        let known = (1..=6).map(|pid| (holder(pid), 10 - pid as usize)).collect();
        let holders = BlockHolders { known, unknown: 2 };
        assert_eq!(
            holders.to_string(),
            "9 by process 1 of user 7, 8 by process 2 of user 7, 7 by process 3 of user 7, 6 by process 4 of user 7, \
             9 by 2 others, 2 by processes that take no connections"
        );
        assert_eq!((holders.count(), BlockHolders::default().to_string()), (41, "none".into()));
    }

    #[test]
    fn a_block_belongs_to_one_owner_and_is_free_when_it_ends() {
        let block = claim_block().unwrap();
        let first = QpNumber(block.number * BLOCK_SIZE);
        assert!(listen_abstract(&block_name(block.number)).is_err());
        assert!(connect_owner(first).is_ok());
        let number = block.number;
        drop(block);
        assert_eq!(connect_owner(first).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(listen_abstract(&block_name(number)).is_ok());
    }
}
