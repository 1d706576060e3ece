//! Asynchronous events.

use core::ffi::c_int;

use super::{ibv_cq, ibv_qp, ibv_srq, ibv_wq};

/// What an event is about; which member counts follows from the event's type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_async_event_element {
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub srq: *mut ibv_srq,
    pub wq: *mut ibv_wq,
    pub port_num: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_async_event {
    pub element: ibv_async_event_element,
    pub event_type: c_int,
}

layout! {
    ibv_async_event: 16 { element @ 0, event_type @ 8 }
}
