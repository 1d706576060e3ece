//! The steps of the demo, in order: each has an initiator and a target, in two processes.

use std::rc::Rc;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::exchange::Exchange;
use super::failure::Outcome;
use super::measure::Figure;
use super::{atomics, device_memory, one_sided, refusal, two_sided};
use crate::verbs::Session;

/// What a step has to work with.
pub(super) struct Stage {
    /// The open device.
    pub(super) session: Rc<Session>,
    /// The way to the other process beside the device.
    pub(super) exchange: Exchange,
}

/// What a step that succeeded has to say.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Done {
    /// What happened, as a sentence.
    pub(super) what: String,
    /// How fast.
    pub(super) figures: Vec<Figure>,
}

/// One step.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Send and receive, with immediate data.
    TwoSided,
    /// RDMA write and read.
    OneSided,
    /// Fetch and add, compare and swap, by both processes at once.
    Atomics,
    /// Memory of the device.
    DeviceMemory,
    /// A key that was given back.
    Refusal,
}

impl Step {
    /// All of them, in order.
    pub(super) const ALL: [Self; 5] =
        [Self::TwoSided, Self::OneSided, Self::Atomics, Self::DeviceMemory, Self::Refusal];

    /// Its name on the command line and in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TwoSided => "two-sided",
            Self::OneSided => "one-sided",
            Self::Atomics => "atomics",
            Self::DeviceMemory => "device-memory",
            Self::Refusal => "refusal",
        }
    }

    /// The initiator's part, which measures.
    pub(super) fn initiate(self, stage: &mut Stage) -> Outcome<Done> {
        match self {
            Self::TwoSided => two_sided::initiate(stage),
            Self::OneSided => one_sided::initiate(stage),
            Self::Atomics => atomics::initiate(stage),
            Self::DeviceMemory => device_memory::initiate(stage),
            Self::Refusal => refusal::initiate(stage),
        }
    }

    /// The target's part.
    pub(super) fn serve(self, stage: &mut Stage) -> Outcome<()> {
        match self {
            Self::TwoSided => two_sided::serve(stage),
            Self::OneSided => one_sided::serve(stage),
            Self::Atomics => atomics::serve(stage),
            Self::DeviceMemory => device_memory::serve(stage),
            Self::Refusal => refusal::serve(stage),
        }
    }
}
