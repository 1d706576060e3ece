//! Finding each other without a daemon: owning a block of queue-pair numbers means owning an abstract socket name, which
//! is unique in a network namespace and vanishes with its owner.

use std::io;

use nonic_queue::QpNumber;
use nonic_sys::{PacketSocket, listen_abstract, random_u64};

use crate::layout::{BLOCK_SIZE, VERSION};

/// Blocks in the 24-bit number space. Block 0 holds the numbers 0 and 1, which are never given out, and is left alone.
const BLOCKS: u32 = (QpNumber::MASK + 1) / BLOCK_SIZE;

/// A claimed block: whoever connects to its socket reaches the owner of the block's numbers.
#[derive(Debug)]
pub struct Block {
    /// Its number: a queue pair's number divided by [`BLOCK_SIZE`].
    pub number: u32,
    /// Where peers connect.
    pub socket: PacketSocket,
}

/// The abstract name of a block.
pub fn block_name(block: u32) -> String {
    format!("nonic.{VERSION}/qp/{block:03x}")
}

/// Claims a block nobody has. The search starts at a random one, so that the numbers of a process that ended are not
/// given to the next one.
pub fn claim_block() -> io::Result<Block> {
    let start = random_u64() % u64::from(BLOCKS - 1);
    for step in 0..u64::from(BLOCKS - 1) {
        let number = ((start + step) % u64::from(BLOCKS - 1)) as u32 + 1;
        match listen_abstract(&block_name(number)) {
            Ok(socket) => return Ok(Block { number, socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "every block of queue-pair numbers of this host is taken",
    ))
}

/// Connects to the owner of a queue-pair number. `ConnectionRefused` if there is none.
pub fn connect_owner(number: QpNumber) -> io::Result<PacketSocket> {
    PacketSocket::connect_abstract(&block_name(number.0 / BLOCK_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

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
