//! Devices as a program lists them.

use std::sync::{Arc, OnceLock};

use crate::config::Config;
use crate::context::Context;
use crate::error::OpenError;
use crate::port;

/// A device that can be opened. Costs nothing until then.
#[derive(Clone, Debug)]
pub struct Device {
    config: Arc<Config>,
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
    devices_of(config())
}

/// Devices under settings of the caller's. What is of the engine follows those of the device that was opened first.
pub fn devices_with(config: Config) -> Vec<Device> {
    devices_of(&Arc::new(config))
}

fn devices_of(config: &Arc<Config>) -> Vec<Device> {
    (0..config.devices)
        .map(|index| Device {
            config: Arc::clone(config),
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

    /// The settings it follows.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens it: every call gives a context of its own.
    pub fn open(&self) -> Result<Arc<Context>, OpenError> {
        Context::open(self).inspect_err(|error| tracing::error!(device = self.name(), "{error}"))
    }
}
