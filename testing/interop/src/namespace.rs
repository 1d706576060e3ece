//! A network namespace with nothing in it but `lo`, or with an interface whose addresses are known.

use std::time::Duration;

use crate::program::{Program, Running};
use crate::suite::{Verdict, failed, skipped};
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

    /// Two that a pair of virtual Ethernet interfaces joins: the first has [`Self::ADDRESSES`], the second [`Self::FAR_ADDRESSES`], and
    /// packets of up to `mtu` bytes go between them. Needs root.
    pub fn joined(mtu: u32) -> Verdict<[Self; 2]> {
        if !is_root() {
            return skipped("needs root, to join two network namespaces");
        }
        // Without it an address may be used at once.
        let no_detection =
            "for kind in all default; do echo 0 > /proc/sys/net/ipv6/conf/$kind/accept_dad; done";
        let near = Self::after(&format!("{no_detection} && IP link set lo up"))?;
        let up = |name: &str, [four, six]: [&str; 2]| {
            format!(
                "IP address add {four}/24 dev {name} && IP address add {six}/64 dev {name} nodad && \
                 IP link set {name} mtu {mtu} up"
            )
        };
        let far = Self::after(&format!(
            "{no_detection} && IP link set lo up && IP link add far type veth peer name near netns {} && {}",
            near.holder.id(),
            up("far", Self::FAR_ADDRESSES)
        ))?;
        near.shell(&up("near", Self::ADDRESSES))?;
        // The kernel may take a second to notice that an interface has its carrier, and until then IPv6 has no route.
        for (namespace, name) in [(&near, "near"), (&far, "far")] {
            let is_up = format!("IP link show {name} | grep -q 'state UP'");
            namespace.shell(&format!("until {is_up}; do sleep 0.02; done"))?;
        }
        Ok([near, far])
    }

    /// Runs a line of the shell in it, as root; `IP` and `TC` stand for the programs.
    pub fn shell(&self, line: &str) -> Verdict {
        let line = line.replace("IP", &program("ip")?.display().to_string());
        let line = line.replace("TC", &program("tc")?.display().to_string());
        let mut words = self.enter()?;
        words.extend(["/bin/sh".into(), "-c".into(), line]);
        let finished = Program::new(words).deadline(Duration::from_secs(30)).run()?;
        if finished.succeeded() { Ok(()) } else { failed(finished.report()) }
    }

    /// The addresses of the second of two that are joined.
    pub const FAR_ADDRESSES: [&str; 2] = ["10.77.0.2", "fd77::2"];

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
