//! Larger programs of the distribution that connect by the RDMA connection manager: a virtual machine that QEMU moves over RDMA, and a
//! disk that tgt serves over iSER and libiscsi's tools read.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use nonic_interop::c_program::package;
use nonic_interop::environment::{AS_IT_COMES, Environment, Place};
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{program, scratch};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("QEMU moves a machine over RDMA, and its memory is the same", || migration(&[]));
    suite.test("QEMU moves a machine whose memory is registered before, and it is the same", || {
        migration(&["pin"])
    });
    suite.test("libiscsi's tools read a disk that tgt serves over iSER", disk);
    suite.run()
}

/// Runs a script with a folder of its own, in a network of its own: ports and addresses are always the same.
fn run(interpreter: &str, script: &str, words: &[&str]) -> Verdict<Finished> {
    let folder = folder(&[&[script], words].concat().join("-"))?;
    let place = Place::prepare(Environment { only_lo: true, ..AS_IT_COMES })?;
    let script = package().join("hosts").join(script);
    let mut command = vec![program(interpreter)?, script, folder];
    command.extend(words.iter().map(PathBuf::from));
    place.nonic_run(command.iter().map(|word| word.display().to_string()))?.run()
}

/// An empty folder that everybody may write to.
fn folder(name: &str) -> Verdict<PathBuf> {
    let folder = scratch().join(name);
    let made = fs::create_dir_all(&folder)
        .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)));
    match made {
        Ok(()) => Ok(folder),
        Err(error) => failed(format!("{}: {error}", folder.display())),
    }
}

fn migration(words: &[&str]) -> Verdict {
    program("qemu-system-x86_64")?;
    let finished = run("python3", "migration.py", words)?;
    if finished.succeeded() && finished.printed().contains("and the memory is the same") {
        return Ok(());
    }
    failed(finished.report())
}

fn disk() -> Verdict {
    ["tgtadm", "iscsi-inq"].into_iter().try_for_each(|name| program(name).map(drop))?;
    let finished = run("sh", "iser.sh", &[])?;
    let says = ["DIRECT_ACCESS", "RETURNED LOGICAL BLOCK ADDRESS:32767", "iops average"];
    if finished.succeeded() && says.iter().all(|words| finished.printed().contains(words)) {
        return Ok(());
    }
    failed(finished.report())
}
