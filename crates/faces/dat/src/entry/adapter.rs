//! Interface adapters.

use core::ffi::c_void;
use std::sync::Arc;

use nonic_dat::{
    AsyncEvents, DatError, DatResult, EventDispatcher, HandleKind, InterfaceAdapter, OpenOptions,
};

use crate::calls::{Count, Handle, Return};
use crate::entry::{find, not_added, room, room_if_given, shown};
use crate::guard::answer;
use crate::handles;
use crate::opened::{Opened, opened};
use crate::version::Version;

/// `DAT_EVD_ASYNC_EXISTS`.
const ASYNC_EXISTS: Handle = 1;
/// `DAT_EVD_OUT_OF_SCOPE`.
const OUT_OF_SCOPE: Handle = 2;

/// `ia_open_func` of a provider: opens an adapter whose objects show the table at `provider`, and stores its handle, which is
/// not yet a number of the registry's.
///
/// # Safety
/// The pointers are NULL or lead to handles.
pub(crate) unsafe fn open<V: Version>(
    name: &str,
    coherent: bool,
    provider: usize,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
) -> DatResult<()> {
    nonic_dat::log_to_standard_error();
    let ia = room::<Handle>(ia.cast(), 4)?;
    let async_room = room::<Handle>(async_evd.cast(), 3)?;
    // SAFETY: not NULL, and the caller's promise.
    let async_events = match unsafe { async_evd.read_unaligned() } {
        0 => AsyncEvents::Own { length: async_qlen },
        ASYNC_EXISTS => AsyncEvents::OutOfScope,
        given => AsyncEvents::Given(find::<V, EventDispatcher>(given, HandleKind::AsyncDispatcher)?),
    };
    let adapter = InterfaceAdapter::open(OpenOptions { name: name.to_owned(), coherent, async_events })?;
    let added = handles::add_adapter(V::NUMBERING, provider, Arc::new(Opened::new(adapter.clone())));
    let handle = added.map_err(|reason| {
        let _ = adapter.close(false);
        not_added(reason)
    })?;
    async_room.store(async_handle::<V>(handle, &adapter));
    ia.store(handle);
    Ok(())
}

/// What the program calls the dispatcher of asynchronous errors.
fn async_handle<V: Version>(ia: Handle, adapter: &InterfaceAdapter) -> Handle {
    match adapter.async_dispatcher() {
        None => OUT_OF_SCOPE,
        dispatcher => shown::<V, EventDispatcher>(ia, dispatcher.as_ref()),
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ia_query<V: Version>(
    ia: Handle,
    async_evd: *mut Handle,
    ia_mask: u64,
    ia_attributes: *mut c_void,
    provider_mask: u64,
    provider_attributes: *mut c_void,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        if ia_mask & !V::IA_MASK != 0 {
            return Err(DatError::argument(3));
        }
        let ia_room = (ia_mask != 0).then(|| room::<V::IaAttributes>(ia_attributes, 4)).transpose()?;
        let provider_room = (provider_mask != 0)
            .then(|| room::<V::ProviderAttributes>(provider_attributes, 6))
            .transpose()?;
        if let Some(room) = room_if_given(async_evd) {
            room.store(async_handle::<V>(handles::real_adapter(ia), &opened.adapter));
        }
        if let Some(room) = ia_room {
            room.store(V::ia_attributes(&opened.adapter.attributes(), opened.own_address()));
        }
        if let Some(room) = provider_room {
            room.store(V::provider_attributes(&opened.adapter.provider_attributes()));
        }
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ia_close<V: Version>(ia: Handle, flags: u32) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let graceful = match flags {
            0 => false,
            1 => true,
            _ => return Err(DatError::argument(2)),
        };
        opened.adapter.close(graceful)?;
        let real = handles::real_adapter(ia);
        handles::remove_adapter(V::NUMBERING, real);
        if let Some(number) = handles::number_of_adapter(real) {
            handles::forget_adapter_number(number);
        }
        Ok(())
    })
}
