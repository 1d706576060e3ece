//! A network namespace with nothing in it but `lo`, or with an interface whose addresses are known.

use std::time::Duration;

use crate::program::{Program, Running};
use crate::suite::{Verdict, skipped};
use crate::toolbox::{is_root, program};

/// Lives as long as the process that holds it open, which dies with this value.
pub struct Namespace {
    holder: Running,
}

impl Namespace {
    /// Makes one and brings `lo` up in it.
    pub fn with_only_lo() -> Verdict<Self> {
        Self::after("IP link set lo up")
    }

    /// One with a pair of virtual Ethernet interfaces besides, of which the first has [`Self::ADDRESSES`].
    pub fn with_interface() -> Verdict<Self> {
        let [four, six] = Self::ADDRESSES;
        Self::after(&format!(
            "IP link set lo up && IP link add one type veth peer name other && IP address add {four}/24 dev one && \
             IP address add {six}/64 dev one nodad && IP link set one up && IP link set other up"
        ))
    }

    /// The addresses of the interface.
    pub const ADDRESSES: [&str; 2] = ["10.77.0.1", "fd77::1"];

    fn after(commands: &str) -> Verdict<Self> {
        let (unshare, ip) = (program("unshare")?, program("ip")?);
        let kind = if is_root() { "-n" } else { "-rn" };
        let commands = commands.replace("IP", &ip.display().to_string());
        let script = format!("{commands} && echo up && exec sleep 1000000");
        let holder =
            Program::new([unshare.display().to_string().as_str(), kind, "--", "/bin/sh", "-c", &script])
                .deadline(Duration::from_secs(30))
                .start();
        let mut holder = holder?;
        match holder.prints(|line| line == "up") {
            Ok(_) => Ok(Self { holder }),
            Err(why) => skipped(format!("`unshare {kind}` with interfaces up is not possible here: {why}")),
        }
    }

    /// The words that make what follows run in it.
    pub fn enter(&self) -> Verdict<Vec<String>> {
        let mut words =
            vec![program("nsenter")?.display().to_string(), format!("--target={}", self.holder.id())];
        if !is_root() {
            words.extend(["--user".into(), "--preserve-credentials".into()]);
        }
        words.extend(["--net".into(), "--".into()]);
        Ok(words)
    }
}
