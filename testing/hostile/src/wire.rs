//! The bytes of the engine's protocol, written by hand: a liar must not be kept from anything by the engine's own types. What
//! has to be right for the lies behind it to be heard is right for the version that `nonic-transport` names.

use nonic_transport::VERSION;

/// What begins every message and every memory.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"nonicRDM");
/// Bytes of a link's memory.
pub(crate) const LINK: usize = 2 * 4096 + 2 * CELLS * CELL;
/// Bytes of a cell of a ring, and how many there are.
pub(crate) const CELL: usize = 32;
pub(crate) const CELLS: usize = 8192;
/// Where the fields of the two directions stand, the liar's own first.
pub(crate) const fn head(direction: usize) -> usize {
    direction * 512 + 128
}
pub(crate) const fn producer_waits(direction: usize) -> usize {
    head(direction) + 128
}
pub(crate) const fn consumer_sleeps(direction: usize) -> usize {
    head(direction) + 256
}
pub(crate) const fn operation_slot(direction: usize, slot: usize) -> usize {
    4096 + (direction * 16 + slot) * 128
}
pub(crate) const fn cell(direction: usize, cell: usize) -> usize {
    2 * 4096 + (direction * CELLS + cell % CELLS) * CELL
}

/// Kinds of messages on the socket, the last one beyond those there are.
pub(crate) const HELLO: u32 = 1;
pub(crate) const WELCOME: u32 = 2;
pub(crate) const LOOK: u32 = 7;
pub(crate) const KINDS: u32 = 12;

/// A message on the socket.
pub(crate) fn message(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The body of an introduction: who it is, no question, and blocks it says it owns.
pub(crate) fn introduction(token: u64, blocks: &[u32]) -> Vec<u8> {
    let mut bytes = [token, token].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((blocks.len() as u32).to_le_bytes());
    bytes.extend(blocks.iter().flat_map(|block| block.to_le_bytes()));
    bytes
}

/// The first word of a message in a ring: of a lap, a kind, flags, a payload of so many bytes.
pub(crate) fn first_word(lap: u64, kind: u64, flags: u64, payload: u64) -> u64 {
    lap | kind << 16 | flags << 24 | payload << 32
}
