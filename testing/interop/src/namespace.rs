//! A network namespace with nothing in it but `lo`.

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
        let (unshare, ip) = (program("unshare")?, program("ip")?);
        let kind = if is_root() { "-n" } else { "-rn" };
        let script = format!("{} link set lo up && echo up && exec sleep 1000000", ip.display());
        let holder =
            Program::new([unshare.display().to_string().as_str(), kind, "--", "/bin/sh", "-c", &script])
                .deadline(Duration::from_secs(30))
                .start();
        let mut holder = holder?;
        match holder.prints(|line| line == "up") {
            Ok(_) => Ok(Self { holder }),
            Err(why) => skipped(format!("`unshare {kind}` with `lo` up is not possible here: {why}")),
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
