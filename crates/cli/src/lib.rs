//! The command `nonic`: `run` a program on the software RDMA device, or put every program of an `env`ironment there, `demo` it, `bench` it, `bench-scale` it, `doctor`
//! the machine, or change (`ctl`) the device of programs that run.
//!
//! Each command is one module with one definition per flag; help, man page test and parser all come from that
//! definition ([`definition`]). The command does not move data with an engine of its own: it finds the C libraries that
//! are shipped beside it and hands them to programs (`run`) or loads them as any program would (`demo`, `bench`, `doctor`).
//! Only the doctor links parts of the engine: to read the segments of running processes, and to try adoption.
#![deny(unsafe_code)]

mod bench;
mod cable;
mod completions;
mod ctl;
#[allow(unsafe_code)] // As `verbs`.
mod dat;
mod dat_options;
mod demo;
mod device_options;
mod doctor;
mod env;
mod holders;
mod library;
mod preload;
#[allow(unsafe_code)] // As `verbs`.
mod rdmacm;
mod run;
#[allow(unsafe_code)] // As `verbs`.
mod scif;
mod scif_options;
mod style;
#[allow(unsafe_code)] // The calls to the system that have no safe wrapper, each with its reason.
mod system;
#[allow(unsafe_code)] // The C interface; the module's own text says where it ends.
mod verbs;
mod view_options;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Exit status of a request that `nonic` refused or did not understand.
const EXIT_REFUSED: u8 = 2;

/// Runs RDMA programs on a machine that has no RDMA hardware.
///
/// nonic is a software RDMA device that lives in the process that uses it: no NIC, no kernel module, no root, no
/// daemon. Programs written for libibverbs, librdmacm, libscif and libdat run unmodified.
#[derive(Debug, Parser)]
#[command(name = "nonic", version, propagate_version = true, after_help = AFTER_HELP)]
struct Nonic {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  nonic demo                              two processes move data, checked and timed
  nonic run -- ibv_devices                list the devices a program sees
  nonic run -- ibv_rc_pingpong            a server here, and in another terminal:
  nonic run -- ibv_rc_pingpong localhost  its client
  nonic run --node 1 -- ./scif_program    a program for SCIF, as on a card
  nonic bench                             how fast, beside what the machine can do
  nonic doctor                            what works on this machine, and why not
  nonic ctl --pid 4711 port down          pull the cable of a running program

Every command explains itself: nonic run --help. The manual page is nonic(1).";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArguments),
    Env(env::EnvArguments),
    Demo(demo::DemoArguments),
    Bench(bench::BenchArguments),
    BenchScale(bench::ScaleArguments),
    Doctor(doctor::DoctorArguments),
    Ctl(ctl::CtlArguments),
    Completions(completions::CompletionsArguments),
    #[command(hide = true)]
    BenchPeer(bench::PeerArguments),
    #[command(hide = true)]
    BenchScalePeer(bench::ScalePeerArguments),
    #[command(hide = true)]
    DemoPeer(demo::PeerArguments),
    #[command(hide = true)]
    DemoCmPeer(demo::CmPeerArguments),
    #[command(hide = true)]
    DemoDatPeer(demo::DatPeerArguments),
    #[command(hide = true)]
    DemoScifPeer(demo::ScifPeerArguments),
    #[command(hide = true)]
    DemoWirePeer(demo::WirePeerArguments),
    #[command(hide = true)]
    DoctorPeer(doctor::PeerArguments),
}

/// Parses the command line and does what it asks. The whole program.
pub fn main() -> ExitCode {
    match Nonic::parse().command {
        Command::Run(arguments) => run::main(&arguments),
        Command::Env(arguments) => env::main(&arguments),
        Command::Demo(arguments) => demo::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::BenchPeer(arguments) => bench::peer_main(&arguments),
        Command::BenchScale(arguments) => bench::scale_main(&arguments),
        Command::BenchScalePeer(arguments) => bench::scale_peer_main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Ctl(arguments) => ctl::main(&arguments),
        Command::Completions(arguments) => completions::main(&arguments),
        Command::DemoPeer(arguments) => demo::peer_main(&arguments),
        Command::DemoCmPeer(arguments) => demo::cm_peer_main(&arguments),
        Command::DemoDatPeer(arguments) => demo::dat_peer_main(&arguments),
        Command::DemoScifPeer(arguments) => demo::scif_peer_main(&arguments),
        Command::DemoWirePeer(arguments) => demo::wire_peer_main(&arguments),
        Command::DoctorPeer(arguments) => doctor::peer_main(&arguments),
    }
}

/// The one definition of every command and flag, for whoever documents or tests them.
pub fn definition() -> clap::Command {
    Nonic::command()
}
