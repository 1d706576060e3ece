//! Protection zones.

use core::ffi::c_void;

use nonic_dat::{HandleKind, ProtectionZone};

use crate::calls::{Handle, Return};
use crate::entry::{check_mask, find, hand_out, room, shown_adapter};
use crate::guard::answer;
use crate::handles;
use crate::layouts::PzParam;
use crate::opened::opened;
use crate::version::Version;

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn pz_create<V: Version>(ia: Handle, pz: *mut Handle) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let pz = room::<Handle>(pz.cast(), 2)?;
        let zone = ProtectionZone::create(&opened.adapter)?;
        pz.store(hand_out::<V, _>(ia, &zone, |zone| zone.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn pz_query<V: Version>(pz: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        find::<V, ProtectionZone>(pz, HandleKind::ProtectionZone)?;
        check_mask(mask, 1, 2)?;
        room(param, 3)?.store(PzParam { ia_handle: shown_adapter::<V>(pz)? });
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn pz_free<V: Version>(pz: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, ProtectionZone>(pz, HandleKind::ProtectionZone)?.free()?;
        handles::remove::<ProtectionZone>(V::NUMBERING, pz);
        Ok(())
    })
}
