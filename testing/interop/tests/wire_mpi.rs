//! Open MPI and MPICH on two hosts, two ranks on each, over UCX's transports: what goes to the other host goes by the wire, and what stays
//! goes through memory. The program checks every byte.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nonic_interop::c_program::{compile_mpi, compile_mpich};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{Toolbox, program, shared_folder};

/// What Ethernet carries.
const ETHERNET: u32 = 1500;
const HOSTS: [&str; 2] = [Namespace::ADDRESSES[0], Namespace::FAR_ADDRESSES[0]];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for transport in ["rc_v", "ud_v"] {
        suite.test(format!("four ranks of Open MPI on two hosts over UCX's {transport}"), move || {
            let [near, far] = HOSTS;
            let words = format!(
                "mpirun --allow-run-as-root --mca plm_rsh_agent SHELL --mca btl_tcp_if_include {near}/24 \
                 --mca oob_tcp_if_include {near}/24 -H {near}:2,{far}:2 -n 4 --mca pml ucx --mca osc ucx \
                 -x UCX_TLS={transport},self -x UCX_NET_DEVICES=nonic0:1"
            );
            Cluster::build(&format!("openmpi-{transport}"))?.run(&words, &compile_mpi("mpi")?, "")
        });
        suite.test(format!("four ranks of MPICH on two hosts over UCX's {transport}"), move || {
            let words = format!(
                "mpiexec.mpich -launcher ssh -launcher-exec SHELL -hosts {} -n 4 -genv UCX_TLS {transport},self \
                 -genv UCX_NET_DEVICES nonic0:1",
                HOSTS.join(",")
            );
            Cluster::build(&format!("mpich-{transport}"))?.run(&words, &compile_mpich("mpi")?, "two-sided")
        });
    }
    suite.run()
}

/// Two hosts, and what stands for a remote shell between them.
struct Cluster {
    near: Place,
    _far: Namespace,
    shell: PathBuf,
}

impl Cluster {
    fn build(name: &str) -> Verdict<Self> {
        let [near, far] = Namespace::joined(ETHERNET)?;
        let folder = shared_folder(name)?;
        let shell = folder.join("shell");
        let [of_near, of_far] = [near.enter()?.join(" "), far.enter()?.join(" ")];
        let [near_address, far_address] = HOSTS;
        let text = format!(
            "#!/bin/sh\n\
             while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\n\
             case $1 in {near_address}) enter='{of_near}';; {far_address}) enter='{of_far}';; *) exit 1;; esac\n\
             shift\n\
             exec $enter sh -c \"$*\"\n"
        );
        let made = fs::write(&shell, text)
            .and_then(|()| fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)));
        if let Err(why) = made {
            return failed(format!("{}: {why}", shell.display()));
        }
        let folder = folder.display().to_string();
        // Who starts processes on another host is the same user there, and has to enter namespaces here.
        let near = Place::prepare(AS_IT_COMES)?.inside(near).user(0);
        Ok(Self { near: near.variable("HOME", &folder).variable("TMPDIR", &folder), _far: far, shell })
    }

    /// Has a launcher start a program on both; `SHELL` is where the remote shell is said.
    fn run(&self, launcher: &str, file: &Path, argument: &str) -> Verdict {
        let shell = self.shell.display().to_string();
        let nonic = Toolbox::find()?.nonic.display();
        let line = format!("{launcher} {nonic} run --wire roce -- {} {argument}", file.display());
        let mut words: Vec<_> = line.replace("SHELL", &shell).split_whitespace().map(String::from).collect();
        words[0] = program(&words[0])?.display().to_string();
        let finished = self.near.bare(words)?.run()?;
        match finished.succeeded() && finished.stdout.contains("4 ranks: all that was sent has come") {
            true => Ok(()),
            false => failed(format!("it failed\n{}", finished.report())),
        }
    }
}
