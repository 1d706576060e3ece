//! What every handle has: a word of the program's, and a kind.

use core::ffi::c_void;

use nonic_dat::HandleKind;

use crate::calls::{Context, Handle, Return};
use crate::entry::room;
use crate::guard::answer;
use crate::handles::{self, NoSuchObject};
use crate::version::Version;

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn set_consumer_context<V: Version>(handle: Handle, context: Context) -> Return {
    answer(V::NUMBERING, || {
        let set = handles::set_context(V::NUMBERING, handles::real_adapter(handle), context);
        set.map_err(|wrong| wrong.named(HandleKind::First))
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn get_consumer_context<V: Version>(
    handle: Handle,
    context: *mut Context,
) -> Return {
    answer(V::NUMBERING, || {
        let found = handles::context(V::NUMBERING, handles::real_adapter(handle));
        let found = found.map_err(|wrong| wrong.named(HandleKind::First))?;
        room::<Context>(context.cast::<c_void>(), 2)?.store(found);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn get_handle_type<V: Version>(handle: Handle, kind: *mut u32) -> Return {
    answer(V::NUMBERING, || {
        let found = handles::describe(handles::real_adapter(handle));
        let found = found.filter(|(numbering, _)| *numbering == V::NUMBERING).ok_or(NoSuchObject);
        let (_, found) = found.map_err(|wrong| wrong.named(HandleKind::First))?;
        room::<u32>(kind.cast::<c_void>(), 2)?.store(found as u32);
        Ok(())
    })
}
