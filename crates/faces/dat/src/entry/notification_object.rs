//! Notification objects.

use core::ffi::c_void;
use std::sync::Arc;

use nonic_dat::{Agent, DatResult, EventDispatcher, HandleKind, NotificationObject};

use crate::calls::{Handle, ProxyAgent, Return};
use crate::entry::{check_mask, find, hand_out, room, shown, shown_adapter, timeout};
use crate::guard::answer;
use crate::handles;
use crate::opened::{opened, opened_of};
use crate::version::Version;

/// `DAT_OS_WAIT_PROXY_AGENT_NULL`.
const NO_AGENT: ProxyAgent = ProxyAgent { instance_data: 0, function: None };

/// What calls the program's function, once, with the dispatcher that has an event.
fn caller<V: Version>(agent: ProxyAgent, object: &Arc<NotificationObject>) -> Option<Agent> {
    let function = agent.function?;
    let object = Arc::downgrade(object);
    Some(Box::new(move |dispatcher: &Arc<EventDispatcher>| {
        // Before the call, in which the program may set an agent anew.
        if let Some(handle) = object.upgrade().map(|object| object.mark().get())
            && let Ok(opened) = opened_of::<V>(handle)
        {
            opened.note_agent(handle, None);
        }
        let handle = shown::<V, _>(handles::adapter_of(dispatcher.mark().get()), Some(dispatcher));
        // SAFETY: the program promised a function of this type when it set the agent.
        unsafe { function(agent.instance_data, handle) };
    }))
}

/// Sets or removes the agent of an object that has a handle.
fn set_agent<V: Version>(cno: Handle, object: &Arc<NotificationObject>, agent: ProxyAgent) -> DatResult<()> {
    if let Ok(opened) = opened_of::<V>(cno) {
        // Before it is set: it may be called at once.
        opened.note_agent(cno, agent.function.map(|_| agent));
    }
    object.set_agent(caller::<V>(agent, object))
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn cno_create<V: Version>(
    ia: Handle,
    agent: ProxyAgent,
    cno: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let cno = room::<Handle>(cno.cast(), 3)?;
        let object = NotificationObject::create(&opened.adapter, None)?;
        let handle = hand_out::<V, _>(ia, &object, |object| object.free())?;
        set_agent::<V>(handle, &object, agent)?;
        cno.store(handle);
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn cno_modify_agent<V: Version>(cno: Handle, agent: ProxyAgent) -> Return {
    answer(V::NUMBERING, || {
        let object = find::<V, NotificationObject>(cno, HandleKind::NotificationObject)?;
        set_agent::<V>(cno, &object, agent)
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn cno_query<V: Version>(cno: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        find::<V, NotificationObject>(cno, HandleKind::NotificationObject)?;
        check_mask(mask, V::CNO_MASK, 2)?;
        let agent = opened_of::<V>(cno)?.agent(cno).unwrap_or(NO_AGENT);
        room(param, 3)?.store(V::cno_param(shown_adapter::<V>(cno)?, agent));
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn cno_wait<V: Version>(
    cno: Handle,
    microseconds: u32,
    evd: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let object = find::<V, NotificationObject>(cno, HandleKind::NotificationObject)?;
        let evd = room::<Handle>(evd.cast(), 3)?;
        let found = object.wait(timeout(microseconds));
        evd.store(found.as_ref().map_or(0, |dispatcher| shown::<V, _>(cno, Some(dispatcher))));
        found.map(drop)
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn cno_free<V: Version>(cno: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, NotificationObject>(cno, HandleKind::NotificationObject)?.free()?;
        if let Ok(opened) = opened_of::<V>(cno) {
            opened.note_agent(cno, None);
        }
        handles::remove::<NotificationObject>(V::NUMBERING, cno);
        Ok(())
    })
}
