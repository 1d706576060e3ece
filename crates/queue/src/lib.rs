//! Work requests, completions, and the queues and states that hold them. Nothing here knows how bytes travel.

#![forbid(unsafe_code)]

mod attributes;
mod completion;
mod state;
mod work_request;

pub use attributes::{Capabilities, QpAttributes};
pub use completion::{Completion, Status};
pub use state::{AttributeMask, QpState, QpType, TransitionError, check_transition};
pub use work_request::*;
