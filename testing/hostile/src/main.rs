//! `hostile`: lies to another process, within bounds, and says what it did.

#![forbid(unsafe_code)]

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use nonic_hostile::{Liar, datagrams, engine, folder, manager, scif};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

/// A process that breaks every rule it can
#[derive(Parser, Debug)]
struct Arguments {
    #[command(flatten)]
    victim: Victim,
    /// Repeats a run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long, at most
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// How many things, at most
    #[arg(long, default_value_t = u64::MAX)]
    count: u64,
    /// What, of all that there is to do to a queue pair; several times for several
    #[arg(long = "action", value_enum, requires = "number")]
    actions: Vec<engine::Action>,
    /// Become this user first
    #[arg(long)]
    user: Option<u32>,
    /// Make a link in order at the end, and say whether the victim welcomes it
    #[arg(long, requires = "number")]
    welcome: bool,
    /// Keep a CPU busy instead, and the victim in peace
    #[arg(long)]
    idle: bool,
    /// Keep everything until standard input ends
    #[arg(long)]
    stay: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct Victim {
    /// The queue pair whose process is the victim
    #[arg(long, conflicts_with_all = ["service", "port"])]
    number: Option<u32>,
    /// The service of the connection manager whose process is the victim: its space, a slash, its number
    #[arg(long, conflicts_with = "port")]
    service: Option<String>,
    /// The name of the SCIF port whose process is the victim
    #[arg(long)]
    port: Option<String>,
    /// The address of the victim for other hosts, its queue pair and a port of `rdma_cm` that it listens at: `127.0.0.1/4096/7174`
    #[arg(long, value_parser = wire_victim, conflicts_with_all = ["number", "service", "port", "folder"])]
    wire: Option<(Ipv4Addr, u32, u16)>,
    /// The folder in which processes of other network namespaces meet, whose victims are all who look there; with a number the
    /// victim is the process of that, and the way to it leads through the folder
    #[arg(long, conflicts_with_all = ["service", "port"])]
    folder: Option<PathBuf>,
}

fn wire_victim(text: &str) -> Result<(Ipv4Addr, u32, u16), String> {
    let parts: Vec<_> = text.split('/').collect();
    let [address, number, port] = parts[..] else {
        return Err("an address, a slash, a number, a slash, a port".into());
    };
    let wrong = |what| move |_| format!("{what} is wrong");
    Ok((
        address.parse().map_err(|error| format!("{address}: {error}"))?,
        number.parse().map_err(wrong("the number of the queue pair"))?,
        port.parse().map_err(wrong("the port"))?,
    ))
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits })?;
    if let Some(user) = arguments.user {
        // The only thread there is.
        let (uid, gid) = (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(user));
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    let until = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    if arguments.idle {
        println!("begins");
        while Instant::now() < until {}
        return Ok(());
    }
    println!("begins");
    let seed = arguments.seed;
    if let Some(number) = arguments.victim.number {
        let all = &engine::Action::HARMLESS_TO_NAMES[..];
        let actions = if arguments.actions.is_empty() { all } else { &arguments.actions };
        let door = arguments.victim.folder.clone().map_or(engine::Door::Name, engine::Door::Folder);
        let mut liar = engine::Hostile::new(number, door, seed);
        attack(&mut liar, actions, &arguments, until);
        if arguments.welcome {
            println!("welcome: {}", liar.is_welcome(Duration::from_secs(5)));
        }
        let names = liar.names();
        finish(&mut liar, names, arguments.stay)
    } else if let Some(service) = arguments.victim.service.clone() {
        let mut liar = manager::Hostile::new(service, seed);
        attack(&mut liar, &manager::Action::ALL, &arguments, until);
        finish(&mut liar, 0, arguments.stay)
    } else if let Some((address, number, port)) = arguments.victim.wire {
        let mut liar = datagrams::Hostile::new(address, number, port, seed);
        attack(&mut liar, &datagrams::Action::ALL, &arguments, until);
        let names = liar.names();
        finish(&mut liar, names, arguments.stay)
    } else if let Some(path) = arguments.victim.folder.clone() {
        let mut liar = folder::Hostile::new(path, seed);
        attack(&mut liar, &folder::Action::ALL, &arguments, until);
        let names = liar.names();
        finish(&mut liar, names, arguments.stay)
    } else {
        let mut liar = scif::Hostile::new(arguments.victim.port.clone().unwrap_or_default(), seed);
        attack(&mut liar, &scif::Action::ALL, &arguments, until);
        finish(&mut liar, 0, arguments.stay)
    }
}

fn attack<L: Liar>(liar: &mut L, actions: &[L::Action], arguments: &Arguments, until: Instant) {
    liar.run(actions, arguments.count, until);
    liar.report().iter().for_each(|line| println!("{line}"));
}

fn finish(liar: &mut impl Liar, names: usize, stay: bool) -> std::io::Result<()> {
    println!("done, with {} connections and {names} names", liar.connections());
    if stay {
        std::io::stdin().read_to_end(&mut Vec::new())?;
        println!("left, with {} connections", liar.connections());
    }
    Ok(())
}
