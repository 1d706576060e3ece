//! Local memory regions, and synchronizing them.

use core::ffi::c_void;

use nonic_dat::{
    Cookie, DatError, DatResult, Description, HandleKind, LocalRegion, ProgramAddress, ProtectionZone,
    Resource, Segment, Subtype,
};

use crate::calls::{Handle, RegionDescription, Return};
use crate::entry::{check_mask, fetch, find, hand_out, list, room, room_if_given, shown, shown_adapter};
use crate::guard::{answer, quick_answer};
use crate::handles;
use crate::opened::{Opened, opened, opened_of};
use crate::version::{LocalRegionWords, Version};

/// `DAT_MEM_TYPE`.
mod memory_type {
    pub(super) const VIRTUAL: u32 = 0;
    pub(super) const LMR: u32 = 1;
    pub(super) const SHARED_VIRTUAL: u32 = 2;
    pub(super) const SO_VIRTUAL: u32 = 3;
}

/// Where results of a registration go; all but the handle may be unwanted.
pub(crate) struct Results {
    pub(crate) lmr: *mut Handle,
    pub(crate) lmr_context: *mut u32,
    pub(crate) rmr_context: *mut u32,
    pub(crate) size: *mut u64,
    pub(crate) address: *mut u64,
}

/// What to register, with the numbers of its arguments.
pub(crate) struct Wanted {
    pub(crate) ia: Handle,
    pub(crate) memory_type: u32,
    pub(crate) region: RegionDescription,
    pub(crate) length: u64,
    pub(crate) pz: Handle,
    pub(crate) privileges: u32,
    /// The number of the argument behind the privileges that is the handle's place.
    pub(crate) handle_argument: u8,
}

/// `dat_lmr_create`.
pub(crate) fn create<V: Version>(wanted: &Wanted, results: &Results) -> DatResult<()> {
    let opened = opened::<V>(wanted.ia)?;
    let zone = find::<V, ProtectionZone>(wanted.pz, HandleKind::ProtectionZone)?;
    let lmr = room::<Handle>(results.lmr.cast(), wanted.handle_argument)?;
    let privileges = V::privileges(wanted.privileges).ok_or(DatError::argument(6))?;
    let description = description::<V>(wanted.memory_type, wanted.region)?;
    let is_shared = matches!(description, Description::Shared { .. });
    let region = LocalRegion::create(&opened.adapter, description, wanted.length, &zone, privileges)
        .map_err(|error| if error == LocalRegion::NO_BYTES { V::NO_BYTES } else { error })?;
    let handle = hand_out::<V, _>(wanted.ia, &region, |region| region.free()).map_err(|error| {
        let no_handle = error == DatError::resources(Subtype::Resource(Resource::Memory));
        if no_handle { DatError::resources(Subtype::Resource(Resource::MemoryRegion)) } else { error }
    })?;
    if is_shared {
        opened.note_description(handle, Some(wanted.region));
    }
    let facts = region.facts();
    for (place, word) in
        [(results.lmr_context, facts.local_context), (results.rmr_context, facts.remote_context)]
    {
        if let Some(room) = room_if_given(place) {
            room.store(word);
        }
    }
    for (place, word) in [(results.size, facts.registered_size), (results.address, facts.registered_address)]
    {
        if let Some(room) = room_if_given(place) {
            room.store(word);
        }
    }
    lmr.store(handle);
    Ok(())
}

fn description<V: Version>(memory_type: u32, region: RegionDescription) -> DatResult<Description> {
    // SAFETY: the contract of `dat_lmr_create`: the memory is the program's to keep until it frees the region.
    let address = unsafe { ProgramAddress::new(region.address) };
    match memory_type {
        memory_type::VIRTUAL | memory_type::SO_VIRTUAL => {
            let strong_order = memory_type == memory_type::SO_VIRTUAL;
            Ok(Description::Virtual { address, strong_order })
        }
        memory_type::LMR => {
            find::<V, LocalRegion>(region.address, HandleKind::LocalRegion).map(Description::Region)
        }
        memory_type::SHARED_VIRTUAL => {
            let place = core::ptr::with_exposed_provenance::<c_void>(region.shared_memory_id);
            Ok(Description::Shared { address, cookie: fetch::<Cookie>(place, 3)? })
        }
        _ => Err(DatError::MODEL_NOT_SUPPORTED),
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn lmr_create<V: Version>(
    ia: Handle,
    memory_type: u32,
    region: RegionDescription,
    length: u64,
    pz: Handle,
    privileges: u32,
    lmr: *mut Handle,
    lmr_context: *mut u32,
    rmr_context: *mut u32,
    size: *mut u64,
    address: *mut u64,
) -> Return {
    answer(V::NUMBERING, || {
        let wanted = Wanted { ia, memory_type, region, length, pz, privileges, handle_argument: 7 };
        create::<V>(&wanted, &Results { lmr, lmr_context, rmr_context, size, address })
    })
}

/// How a region was described.
fn described<V: Version>(lmr: Handle, region: &LocalRegion, opened: &Opened) -> RegionDescription {
    let facts = region.facts();
    match facts.base {
        Some(base) => RegionDescription { address: shown::<V, _>(lmr, Some(&base)), shared_memory_id: 0 },
        None => opened
            .description(lmr)
            .unwrap_or(RegionDescription { address: facts.address as usize, shared_memory_id: 0 }),
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn lmr_query<V: Version>(lmr: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let region = find::<V, LocalRegion>(lmr, HandleKind::LocalRegion)?;
        check_mask(mask, V::LMR_MASK, 2)?;
        let param = room(param, 3)?;
        let facts = region.facts();
        param.store(V::lmr_param(&LocalRegionWords {
            adapter: shown_adapter::<V>(lmr)?,
            memory_type: facts.memory_type,
            description: described::<V>(lmr, &region, &*opened_of::<V>(lmr)?),
            length: facts.length,
            zone: shown::<V, _>(lmr, Some(&facts.zone)),
            privileges: facts.privileges.bits(),
            local_context: facts.local_context,
            remote_context: facts.remote_context,
            registered_size: facts.registered_size,
            registered_address: facts.registered_address,
        }));
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn lmr_free<V: Version>(lmr: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, LocalRegion>(lmr, HandleKind::LocalRegion)?.free()?;
        if let Ok(opened) = opened_of::<V>(lmr) {
            opened.note_description(lmr, None);
        }
        handles::remove::<LocalRegion>(V::NUMBERING, lmr);
        Ok(())
    })
}

/// The program's list of segments: arguments 2 and 3.
///
/// # Safety
/// See [`list`].
unsafe fn segments<'a, V: Version>(
    pointer: *const c_void,
    count: u64,
) -> DatResult<impl ExactSizeIterator<Item = Segment> + Clone + use<'a, V>> {
    let count = usize::try_from(count).map_err(|_| DatError::argument(3))?;
    // SAFETY: the caller's promise.
    let list: &'a [V::LmrTriplet] = unsafe { list(count, pointer, (3, 2)) }?;
    Ok(list.iter().map(V::segment))
}

macro_rules! syncs {
    ($($name:ident is $method:ident;)*) => {$(
        /// # Safety
        /// As in C: pointers are NULL or lead to what the call expects.
        pub(crate) unsafe extern "C" fn $name<V: Version>(
            ia: Handle,
            local_segments: *const c_void,
            count: u64,
        ) -> Return {
            quick_answer(V::NUMBERING, || {
                let real = handles::real_adapter(ia);
                let done = handles::with(V::NUMBERING, real, |opened: &std::sync::Arc<Opened>| {
                    // SAFETY: the program's promise.
                    opened.adapter.$method(unsafe { segments::<V>(local_segments, count) }?)
                });
                done.map_err(|wrong| wrong.named(HandleKind::InterfaceAdapter))?
            })
        }
    )*};
}

syncs! {
    lmr_sync_rdma_read is sync_rdma_read;
    lmr_sync_rdma_write is sync_rdma_write;
}
