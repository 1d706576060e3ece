//! How bytes and messages reach another process of the same host.

#![deny(unsafe_code)]

mod apertures;
mod calls;
mod change;
mod changing;
mod channel;
mod codec;
mod control;
mod counters;
mod directory;
mod faults;
#[cfg(fuzzing)]
pub mod fuzzing;
mod group;
mod importing;
mod layout;
mod link;
mod link_record;
mod party;
mod qp_slot;
mod reach;
mod ring;
mod segment;
mod segment_copy;
mod session;
mod tier;

pub use apertures::{Apertures, BOUND as APERTURE_BOUND, Placing};
pub use calls::{CallNumber, Calls};
pub use change::{CHANGES, Change, Loss, NoChange};
pub use changing::{Asked, CHANGING_MESSAGE_MAX, connect_to_change, listen_for_changes};
pub use channel::BeginsRest;
pub use codec::{FRAGMENT, ShortSend};
pub use control::{ControlMessage, Introduction, ProcessToken, Shown};
pub use counters::{Counter, Counters, PairCounters, read_segment_counters};
pub use directory::{
    BLOCKS, Block, BlockHolders, block_holders, block_name, claim_block, connect_owner, held_blocks,
    met_block_name,
};
pub use faults::{parse_faults, read_faults};
pub use group::{GROUP_MAX, GroupAddress, GroupName, Membership, group_members, met_member, met_member_name};
pub use importing::{Granted, Wanted};
pub use layout::{BLOCK_SIZE, BLOCKS_MAX, KEYS_MAX, LINKS_SHOWN, VERSION};
pub use link::{Attention, Link, LinkEvent};
pub use link_record::{Answered, LinkFacts, Probe, Standing};
pub use nonic_trust::{Route, TrustedUsers, UnknownUser};
pub use party::Party;
pub use qp_slot::QpSlot;
pub use reach::{
    DirectAccess, DirectRequest, NamedMemory, NotNamed, PeerView, PullAccess, PullError, PullPiece,
};
pub use ring::{Consumer, Incoming, IncomingShort, Producer, RingCorrupt, RingFull, Sleeper};
pub use segment::{SEGMENT_NAME, Segment, SegmentView, SlotPlace};
pub use segment_copy::{
    SegmentFault, SegmentHead, SegmentRegions, Settings, read_segment_head, read_segment_regions,
};
pub use tier::Tier;
