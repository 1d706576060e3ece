//! One-sided operations that run in the initiator: find the bytes, copy, done. Everything that is in doubt is left to
//! the target, which judges it by the same gate; so this path never refuses, it only declines.

use std::io;

use nonic_memory::{
    Access, AddressRange, Key, KeyUse, OwnOperation, Place, SharedSlice, Translation, ZoneId, admit, resolve,
};
use nonic_protocol::{QpNumber, QpType};

use super::kernel_copy::Way;
use super::target::Target;
use super::{ControlPath, Entered, Reach};
use crate::segment::SlotPlace;

/// What an operation wants of the peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct DirectRequest {
    /// The queue pair that asks.
    pub source: QpNumber,
    /// The service it expects of its peer.
    pub transport: QpType,
    /// Where the peer's queue pair publishes itself.
    pub target: SlotPlace,
    /// Its number.
    pub pair: QpNumber,
    /// The remote key.
    pub key: Key,
    /// The bytes.
    pub range: AddressRange,
    /// The right that is needed.
    pub want: Access,
}

/// Registered memory of a peer, as the peer itself names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedMemory {
    /// The peer's zone.
    pub zone: ZoneId,
    /// The peer's local key.
    pub key: Key,
}

/// Why named memory cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNamed {
    /// The peer has taken it back, or never had such memory, or is gone.
    #[error("the owner has taken the memory back")]
    TakenBack,
    /// This process has no way to the bytes.
    #[error("this process has no way to the bytes")]
    Unreachable,
    /// They lie in a file of the peer's, which it was asked for and has not given yet.
    #[error("the file the bytes lie in has not come yet")]
    Coming,
    /// So many threads of this process are inside operations that the peer could not see this one. Another time.
    #[error("too many operations are under way")]
    Crowded,
}

/// The peer's bytes, held so that revocation waits.
#[derive(Debug)]
pub struct DirectAccess<'a> {
    entered: Entered<'a>,
    target: Target<'a>,
}

impl Reach {
    /// The peer's bytes, if the operation is allowed beyond doubt and they can be reached from here.
    pub(crate) fn direct(
        &self,
        control: &impl ControlPath,
        request: &DirectRequest,
    ) -> Option<DirectAccess<'_>> {
        let view = self.view()?;
        let entered = self.enter(control, view)?;
        let slot = view.segment.slot(request.target)?;
        if !slot.allows(request.source, request.transport, request.want) {
            return None;
        }
        let (keys, key_use) = (view.segment.keys(), KeyUse::Through(request.pair.0));
        let place = resolve(keys, slot.zone, request.key, key_use, request.range, request.want).ok()?;
        let way = if request.want == Access::REMOTE_WRITE { Way::Out } else { Way::In };
        let target = self.target(control, way, &place)?;
        Some(DirectAccess { entered, target })
    }

    /// The bytes of memory that the peer has let this process use as its own, for writing if that is `want`ed, if the peer has it
    /// still and they can be reached from here.
    pub(crate) fn named(
        &self,
        control: &impl ControlPath,
        memory: NamedMemory,
        range: AddressRange,
        want: Access,
    ) -> Result<DirectAccess<'_>, NotNamed> {
        let view = self.view().ok_or(NotNamed::Unreachable)?;
        let not_entered = || if control.is_dead() { NotNamed::TakenBack } else { NotNamed::Crowded };
        let entered = self.enter(control, view).ok_or_else(not_entered)?;
        let place = resolve(view.segment.keys(), memory.zone, memory.key, KeyUse::Local, range, want)
            .map_err(|_| NotNamed::TakenBack)?;
        let way = if want == Access::LOCAL_WRITE { Way::Out } else { Way::In };
        let target = self.target(control, way, &place).ok_or_else(|| self.no_way_to(&place))?;
        Ok(DirectAccess { entered, target })
    }

    /// Why there is none.
    #[cold]
    fn no_way_to(&self, place: &Place) -> NotNamed {
        let Translation::SharedFile { file, offset, .. } = place.translation() else {
            return NotNamed::Unreachable;
        };
        let end = offset.saturating_add(place.offset()).saturating_add(place.length());
        if self.files.may_come(file, end) { NotNamed::Coming } else { NotNamed::Unreachable }
    }

    /// Runs `act` on the peer's bytes if the operation is allowed beyond doubt and they are all mapped here: what
    /// [`Reach::direct`] does, for the operations that are over in a moment. `None`: nothing was done. The caller is inside an
    /// operation of this process, which `own` proves: whoever closes the link waits for that.
    #[inline(always)]
    pub(crate) fn at_once<R>(
        &self,
        control: &impl ControlPath,
        own: &OwnOperation<'_>,
        request: &DirectRequest,
        act: impl FnOnce(SharedSlice<'_>) -> R,
    ) -> Option<R> {
        let view = self.view()?;
        // (`enter` would return an option, which goes through memory.)
        let shown = self.own_operations.enter(|| view.segment.light_fences());
        if shown.is_none() && !self.is_loopback || control.is_dead() {
            return None;
        }
        let slot = view.segment.slot(request.target)?;
        if !slot.allows(request.source, request.transport, request.want) {
            return None;
        }
        let key_use = KeyUse::Through(request.pair.0);
        let place = admit(view.segment.keys(), slot.zone, request.key, key_use, request.range, request.want)?;
        let slice = self.mapped_now(view, own, &place)?;
        Some(act(slice))
    }
}

impl DirectAccess<'_> {
    /// Writes `local` slices there, one after the other. The last byte comes last.
    pub fn write(&self, local: &[SharedSlice<'_>]) -> io::Result<()> {
        self.target.copy(Way::Out, &self.entered.own, local)
    }

    /// Reads from there into `local` slices, one after the other.
    pub fn read(&self, local: &[SharedSlice<'_>]) -> io::Result<()> {
        self.target.copy(Way::In, &self.entered.own, local)
    }

    /// The bytes as an aligned word for an atomic, if they are mapped here.
    pub fn atomic_word(&self) -> Option<SharedSlice<'_>> {
        let slice = self.target.slice(&self.entered.own)?;
        slice.is_word().then_some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, OnceLock};
    use std::time::{Duration, Instant};

    use nonic_memory::{AdoptedPages, AdoptionPolicy, Arena, Entry, PlainReason, RegionAddress, Translation};
    use nonic_trust::TrustedUsers;
    use proptest::prelude::*;

    use crate::directory::claim_block;
    use crate::layout::BLOCK_SIZE;
    use crate::{Link, Party, QpSlot, Tier, connect_owner};

    /// A link, the party at its far end, and that party's queue pair.
    struct Way {
        link: Link,
        owner: Arc<Party>,
        pair: QpNumber,
    }

    fn party(tier: Tier) -> Arc<Party> {
        let arena = Arc::new(Arena::create(ARENA).unwrap());
        Arc::new(
            Party::create(tier, AdoptionPolicy::Auto, Arc::default(), vec![arena], TrustedUsers::default())
                .unwrap(),
        )
    }

    fn to_itself(tier: Tier) -> Way {
        let owner = party(tier);
        owner.segment.add_block(1).unwrap();
        let link = Link::loopback(&owner).unwrap();
        Way { link, owner, pair: QpNumber(BLOCK_SIZE + 5) }
    }

    fn to_another(tier: Tier) -> Way {
        let (own, owner, block) = (party(tier), party(Tier::Mapped), claim_block().unwrap());
        owner.segment.add_block(block.number).unwrap();
        let pair = QpNumber(block.number * BLOCK_SIZE + 5);
        let link = Link::connect(&own, connect_owner(pair).unwrap(), &[]).unwrap();
        let far = Link::accept(&owner, block.socket.accept().unwrap(), &[block.number]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while link.view().is_none() && tier > Tier::Ring {
            assert!(Instant::now() < deadline, "the two do not meet");
            link.handle_socket();
            far.handle_socket();
        }
        // Its end stays open: nothing of this test is about the end of a link.
        std::mem::forget(far);
        Way { link, owner, pair }
    }

    /// Every kind of link there is.
    fn ways() -> &'static [Way] {
        static WAYS: OnceLock<Vec<Way>> = OnceLock::new();
        WAYS.get_or_init(|| {
            let tiers = [Tier::Mapped, Tier::Kernel, Tier::Ring];
            let mut ways: Vec<_> =
                tiers.into_iter().flat_map(|tier| [to_itself(tier), to_another(tier)]).collect();
            let ended = to_itself(Tier::Mapped);
            ended.link.close();
            ways.push(ended);
            ways
        })
    }

    const ARENA: u64 = 1 << 16;
    const LENGTH: u64 = 3 * 4096;
    const BASE: u64 = 0x1000;
    /// Nothing is there: places are compared, and not gone to.
    const ADDRESS: usize = 0x20_0000;
    const SOURCE: QpNumber = QpNumber(77);
    const ZONE: ZoneId = ZoneId(3);

    fn translations() -> impl Strategy<Value = Translation> {
        let pages = (0usize..4, 0usize..4).prop_map(|(first, count)| {
            let start = ADDRESS + first * 4096;
            AdoptedPages { layer: 0, start, end: start + count * 4096 }
        });
        prop_oneof![
            1 => Just(Translation::Plain { address: ADDRESS }),
            3 => pages.prop_map(|pages| Translation::Adopted { address: ADDRESS + 8, pages }),
            3 => (0u32..2, prop_oneof![3 => Just(8), 1 => Just(ARENA - 4096)])
                .prop_map(|(device, offset)| Translation::Device { device, offset }),
            1 => Just(Translation::SharedFile { file: 1, offset: 0, address: ADDRESS }),
            1 => Just(Translation::Shadow { shadow: 0, offset: 0 }),
            1 => Just(Translation::OnDemand { address: ADDRESS }),
            1 => Just(Translation::Null),
        ]
    }

    /// Mostly every right, else any.
    fn rights() -> impl Strategy<Value = Access> {
        prop_oneof![
            3 => Just(Access::REMOTE),
            1 => (0u32..128).prop_filter_map("bits with a meaning", Access::from_bits),
        ]
    }

    fn slots() -> impl Strategy<Value = Option<QpSlot>> {
        let slot =
            (rights(), prop::bool::weighted(0.8), prop::bool::weighted(0.9), prop::bool::weighted(0.9));
        let slot = slot.prop_map(|(access, answers_reads, is_peer, reliable)| QpSlot {
            zone: ZONE,
            peer: if is_peer { SOURCE } else { QpNumber(78) },
            access,
            answers_reads,
            transport: if reliable { QpType::ReliableConnection } else { QpType::UnreliableConnection },
        });
        prop::option::weighted(0.95, slot)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn what_is_done_at_once_is_what_is_allowed_directly_and_on_the_same_bytes(
            slot in slots(), access in rights(), translation in translations(),
            other_zone in prop::bool::weighted(0.05), is_window in prop::bool::weighted(0.2),
            local_key in prop::bool::weighted(0.05),
            from in prop_oneof![3 => 0u64..64, 2 => 4080u64..4100, 1 => LENGTH - 16..LENGTH + 2],
            length in prop_oneof![4 => 1u64..64, 1 => 1..LENGTH, 1 => any::<u64>().prop_map(|length| length | 1)],
            want in prop::sample::select(&[Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC][..]),
        ) {
            static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
            let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for (number, Way { link, owner, pair }) in ways().iter().enumerate() {
                let (segment, keys) = (&owner.segment, owner.segment.keys());
                segment.publish(*pair, slot);
                let entry = Entry {
                    zone: if other_zone { ZoneId(4) } else { ZONE },
                    access,
                    base: RegionAddress(BASE),
                    length: LENGTH,
                    translation,
                    reason: PlainReason::None,
                    local_tag: 0,
                    remote_tag: 0,
                };
                let key = if is_window {
                    let key = keys.insert_window().unwrap();
                    keys.bind_window(key, &entry);
                    key
                } else {
                    let pair = keys.insert(entry).unwrap();
                    if local_key { pair.local } else { pair.remote }
                };
                let request = DirectRequest {
                    source: SOURCE,
                    transport: QpType::ReliableConnection,
                    target: segment.view().slot_place(*pair).unwrap(),
                    pair: *pair,
                    key,
                    range: AddressRange::new(BASE + from, length),
                    want,
                };
                let direct = link.direct(&request).and_then(|access| {
                    let whole = matches!(access.target, Target::Mapped(_) | Target::Own { .. });
                    let bytes = access.target.slice(&access.entered.own);
                    bytes.filter(|_| whole).map(|bytes| (bytes.address(), bytes.length()))
                });
                let own = link.party().memory.enter();
                let at_once = link.at_once(&own, &request, |bytes| (bytes.address(), bytes.length()));
                drop(own);
                prop_assert_eq!(at_once, direct, "way {}", number);
                if is_window {
                    keys.unbind_window(key);
                } else {
                    keys.kill(nonic_memory::KeyPair { local: key, remote: key });
                }
            }
        }
    }

    #[test]
    fn a_rightful_request_is_done_at_once_on_device_memory_of_another_and_of_this_process() {
        for way in [to_itself(Tier::Mapped), to_another(Tier::Mapped)] {
            let slot = QpSlot {
                zone: ZONE,
                peer: SOURCE,
                access: Access::REMOTE_WRITE,
                answers_reads: true,
                transport: QpType::ReliableConnection,
            };
            way.owner.segment.publish(way.pair, Some(slot));
            let entry = Entry {
                zone: ZONE,
                access: Access::REMOTE_WRITE,
                base: RegionAddress(BASE),
                length: 64,
                translation: Translation::Device { device: 0, offset: 128 },
                reason: PlainReason::None,
                local_tag: 0,
                remote_tag: 0,
            };
            let mut request = DirectRequest {
                source: SOURCE,
                transport: QpType::ReliableConnection,
                target: way.owner.segment.view().slot_place(way.pair).unwrap(),
                pair: way.pair,
                key: way.owner.segment.keys().insert(entry).unwrap().remote,
                range: AddressRange::new(BASE + 60, 4),
                want: Access::REMOTE_WRITE,
            };
            let own = way.link.party().memory.enter();
            assert!(way.link.at_once(&own, &request, |bytes| bytes.write(b"abcd")).is_some());
            let mut seen = [0; 6];
            way.owner.memory.arenas()[0].slice(187, 6).unwrap().read(&mut seen);
            assert_eq!(&seen, b"\0abcd\0");
            request.range.length = 5;
            assert!(way.link.at_once(&own, &request, |_| ()).is_none());
        }
    }
}
