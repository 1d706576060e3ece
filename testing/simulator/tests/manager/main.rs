//! What the connection manager says and does about every message that a peer can send, and about those that do not come, in
//! either role: proves CM-2 (`repeats`, `delays`), CM-3 (`refusals`, `strangers`, `places`) and CM-4 (`floods`, `hostile`, `endings`).

#![forbid(unsafe_code)]

mod both;
mod delays;
mod endings;
mod families;
mod floods;
mod host;
mod hostile;
mod places;
mod refusals;
mod repeats;
mod services;
mod strangers;
