//! An engine as a value.

use std::sync::Arc;

use crate::config::Config;
use crate::device::{Device, devices_of};
use crate::engine::EngineOwner;
use crate::error::OpenError;
use crate::process;

/// An engine of this process beside the one that [`crate::devices`] lead to: with devices, links, a port segment, an agent and
/// settings of its own. To all others, also in the same process, it is what another process would be: its queue pairs are connected
/// by their numbers, its keys are its own, and who is connected to it sees its end as that of a process which exits.
///
/// It runs as long as a handle, one of its devices or anything that was opened on one exists; clones are of the same engine.
///
/// Some things a process has one of. Memory that is registered with several engines is adopted once, and is private again when the
/// last region of any of them has ended; a user whom one engine trusts by name ([`Config::trusted_users`]) can reach what the
/// others adopt, too. What [`crate::fork_init`] says holds for all engines, and all take leave when the process exits. A child has
/// none of its parent's ([`OpenError::Gone`]).
#[derive(Clone, Debug)]
pub struct EngineHandle {
    engine: Arc<EngineOwner>,
    config: Arc<Config>,
}

impl EngineHandle {
    /// A new engine under these settings. Fails if the kernel refuses memory or descriptors.
    pub fn create(config: Config) -> Result<Self, OpenError> {
        let engine = process::new_engine(&config).inspect_err(|error| tracing::error!("{error}"))?;
        Ok(Self { engine, config: Arc::new(config) })
    }

    /// Its devices, as many as its settings say.
    pub fn devices(&self) -> Vec<Device> {
        devices_of(&self.config, Some(&self.engine))
    }
}
