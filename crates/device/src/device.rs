//! Devices as a program lists them.

use std::sync::{Arc, OnceLock};

use crate::config::Config;
use crate::context::Context;
use crate::engine::EngineOwner;
use crate::error::OpenError;
use crate::gid_table::GidEntry;
use crate::port::{Port, PortAttributes};
use crate::{port, process};

/// A device that can be opened. Costs nothing until then.
#[derive(Clone, Debug)]
pub struct Device {
    config: Arc<Config>,
    /// The engine it is on; none: the one that the process shares, when it is opened.
    engine: Option<Arc<EngineOwner>>,
    index: u32,
    name: Arc<str>,
    guid: u64,
}

fn config() -> &'static Arc<Config> {
    static CONFIG: OnceLock<Arc<Config>> = OnceLock::new();
    CONFIG.get_or_init(|| Arc::new(Config::from_environment()))
}

/// The devices of this process, as the environment asks for them (see [`Config`]).
pub fn devices() -> Vec<Device> {
    devices_of(config(), None)
}

/// Devices under settings of the caller's, on the engine that the process shares: what is of the engine follows those of the device
/// that was opened first. For an engine under settings of its own there is [`crate::EngineHandle`].
pub fn devices_with(config: Config) -> Vec<Device> {
    devices_of(&Arc::new(config), None)
}

pub(crate) fn devices_of(config: &Arc<Config>, engine: Option<&Arc<EngineOwner>>) -> Vec<Device> {
    (0..config.devices)
        .map(|index| Device {
            config: Arc::clone(config),
            engine: engine.cloned(),
            index,
            name: format!("{}{index}", config.device_name).into(),
            guid: port::guid(index),
        })
        .collect()
}

impl Device {
    /// Its name: `nonic0`, `nonic1`, ...
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its GUID, host order, never 0; the same in every process of one host and network namespace.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Its port, the entries of the GID table and those of the P_Key table, as a context that is opened now would show them.
    pub fn port(&self) -> (PortAttributes, Vec<GidEntry>, Vec<u16>) {
        let engine = self.engine.clone().or_else(process::living_engine);
        let state = engine.map(|engine| Arc::clone(engine.changes.port(self.index))).unwrap_or_default();
        let port = Port::new(&self.config, self.index, &state);
        let attributes = port.attributes();
        let pkeys = (0..attributes.pkey_count).filter_map(|index| port.pkey(index)).collect();
        (attributes, port.gids().to_vec(), pkeys)
    }

    /// The settings it follows.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens it: every call gives a context of its own. Fails if the kernel refuses memory or descriptors, and in a child if the
    /// device is on an engine that its parent made, or has failed ([`crate::EngineHandle`]).
    pub fn open(&self) -> Result<Arc<Context>, OpenError> {
        let engine = match &self.engine {
            None => process::shared_engine(&self.config),
            Some(engine) if engine.is_usable() => Ok(Arc::clone(engine)),
            Some(_) => Err(OpenError::Gone),
        };
        let opened = engine.and_then(|engine| Context::open(self, engine));
        opened.inspect_err(|error| tracing::error!(device = self.name(), "{error}"))
    }
}
