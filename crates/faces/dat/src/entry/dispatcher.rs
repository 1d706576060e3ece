//! Event dispatchers.

use core::ffi::c_void;

use nonic_dat::{
    AsyncObject, DatError, Event, EventDispatcher, HandleKind, NotificationObject, ServicePoint, Streams,
};

use crate::calls::{Count, Handle, Return};
use crate::entry::{
    Room, check_mask, fetch, find, find_if_given, hand_out, room, shown, shown_adapter, timeout, with,
};
use crate::guard::{answer, quick_answer};
use crate::handles;
use crate::layouts::EvdParam;
use crate::opened::{opened, opened_of};
use crate::version::{EventWords, Version, event_number};

/// How refusals call the dispatcher that a call is about.
const DISPATCHER: HandleKind = HandleKind::First;

/// Stores an event as the program is to see it.
#[inline(always)]
fn deliver<V: Version>(evd: Handle, event: &Event<'_>, room: Room<V::Event>) {
    room.store(V::event(evd, &event_words::<V>(evd, event)));
}

/// An event with handles in place of objects. Requests, and endpoints that were made for them, get theirs here.
#[inline(always)]
fn event_words<V: Version>(evd: Handle, event: &Event<'_>) -> EventWords {
    match *event {
        Event::Transfer { endpoint, cookie, status, length, kind, immediate } => {
            EventWords::Transfer { endpoint: endpoint.mark().get(), cookie, status, length, kind, immediate }
        }
        Event::Bind { region, cookie, status } => {
            EventWords::Bind { region: region.mark().get(), cookie, status }
        }
        ref other => rare_event_words::<V>(evd, other),
    }
}

#[cold]
fn rare_event_words<V: Version>(evd: Handle, event: &Event<'_>) -> EventWords {
    match *event {
        Event::Request { point, address, conn_qual, request } => EventWords::Request {
            point: match point {
                ServicePoint::Public(point) => shown::<V, _>(evd, Some(point)),
                ServicePoint::Reserved(point) => shown::<V, _>(evd, Some(point)),
            },
            address: opened_of::<V>(evd).map_or(0, |opened| opened.address(address)),
            conn_qual,
            request: shown::<V, _>(evd, Some(request)),
        },
        Event::Connection { kind, endpoint, private_data } => EventWords::Connection {
            kind,
            endpoint: shown::<V, _>(evd, Some(endpoint)),
            private_data: program_bytes(private_data),
        },
        Event::Async { kind, object, reason } => EventWords::Async {
            kind,
            object: match object {
                // The program knows it by its number.
                AsyncObject::Adapter(adapter) => handles::find(V::NUMBERING, adapter.mark().get())
                    .map_or(0, |opened| V::shown_adapter(&opened)),
                AsyncObject::Dispatcher(dispatcher) => shown::<V, _>(evd, Some(dispatcher)),
                AsyncObject::Endpoint(endpoint) => shown::<V, _>(evd, Some(endpoint)),
                AsyncObject::SharedReceives(queue) => shown::<V, _>(evd, Some(queue)),
            },
            reason,
        },
        Event::Software { pointer } => EventWords::Software { pointer },
        Event::Transfer { .. } | Event::Bind { .. } => unreachable!("taken care of before"),
    }
}

/// Where private data lies, and its length; the object that the event is about keeps it.
pub(super) fn program_bytes(bytes: &[u8]) -> (usize, Count) {
    let address = if bytes.is_empty() { 0 } else { bytes.as_ptr().expose_provenance() };
    (address, bytes.len() as Count)
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn evd_create<V: Version>(
    ia: Handle,
    min_qlen: Count,
    cno: Handle,
    flags: u32,
    evd: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let cno = find_if_given::<V, NotificationObject>(cno, HandleKind::NotificationObject)?;
        let streams = Streams::from_bits(flags).ok_or(DatError::argument(4))?;
        let evd = room::<Handle>(evd.cast(), 5)?;
        let dispatcher = EventDispatcher::create(&opened.adapter, min_qlen, cno.as_ref(), streams)?;
        evd.store(hand_out::<V, _>(ia, &dispatcher, |dispatcher| dispatcher.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn evd_query<V: Version>(evd: Handle, mask: u32, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let known = find_if_given::<V, EventDispatcher>(evd, DISPATCHER)?;
        check_mask(mask, 0x1f, 2)?;
        let param = room(param, 3)?;
        // NULL stands for the dispatcher of asynchronous errors that another library has.
        let Some(dispatcher) = known else {
            param.store(EvdParam { ia_handle: 0, evd_qlen: 0, evd_state: 0, cno_handle: 0, evd_flags: 0 });
            return Ok(());
        };
        let facts = dispatcher.facts()?;
        param.store(EvdParam {
            ia_handle: shown_adapter::<V>(evd)?,
            evd_qlen: facts.length,
            evd_state: facts.state,
            cno_handle: shown::<V, _>(evd, facts.notification.as_ref()),
            evd_flags: facts.streams.bits(),
        });
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn evd_modify_cno<V: Version>(evd: Handle, cno: Handle) -> Return {
    answer(V::NUMBERING, || {
        let dispatcher = find::<V, EventDispatcher>(evd, DISPATCHER)?;
        let cno = find_if_given::<V, NotificationObject>(cno, HandleKind::NotificationObject)?;
        dispatcher.modify_notification(cno.as_ref())
    })
}

macro_rules! on_dispatcher {
    ($($name:ident($($argument:ident: $type:ty)?) is $method:ident;)*) => {$(
        /// # Safety
        /// As in C.
        pub(crate) unsafe extern "C" fn $name<V: Version>(evd: Handle $(, $argument: $type)?) -> Return {
            answer(V::NUMBERING, || find::<V, EventDispatcher>(evd, DISPATCHER)?.$method($($argument)?))
        }
    )*};
}

on_dispatcher! {
    evd_enable() is enable;
    evd_disable() is disable;
    evd_resize(min_qlen: Count) is resize;
    evd_set_unwaitable() is set_unwaitable;
    evd_clear_unwaitable() is clear_unwaitable;
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn evd_wait<V: Version>(
    evd: Handle,
    microseconds: u32,
    threshold: Count,
    event: *mut c_void,
    nmore: *mut Count,
) -> Return {
    answer(V::NUMBERING, || {
        let dispatcher = find::<V, EventDispatcher>(evd, DISPATCHER)?;
        let event = room::<V::Event>(event, 4)?;
        let nmore = room::<Count>(nmore.cast(), 5)?;
        let (result, more) =
            dispatcher.wait(timeout(microseconds), threshold, |found| deliver::<V>(evd, found, event));
        nmore.store(more);
        result
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn evd_dequeue<V: Version>(evd: Handle, event: *mut c_void) -> Return {
    quick_answer(V::NUMBERING, || {
        with::<V, EventDispatcher, _>(evd, DISPATCHER, |dispatcher| {
            let event = room::<V::Event>(event, 2)?;
            dispatcher.dequeue(|found| deliver::<V>(evd, found, event))
        })
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn evd_post_se<V: Version>(evd: Handle, event: *const c_void) -> Return {
    answer(V::NUMBERING, || {
        let dispatcher = find::<V, EventDispatcher>(evd, DISPATCHER)?;
        let (number, pointer) = V::software_event(&fetch(event, 2)?);
        if number != event_number::SOFTWARE {
            return Err(DatError::argument(2));
        }
        dispatcher.post_software(pointer)
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn evd_free<V: Version>(evd: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, EventDispatcher>(evd, DISPATCHER)?.free()?;
        handles::remove::<EventDispatcher>(V::NUMBERING, evd);
        Ok(())
    })
}
