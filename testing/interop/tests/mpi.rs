//! Open MPI and MPICH of the distribution, three ranks on this host: over UCX's transports, and over Open MPI's own for verbs. The
//! program checks every byte.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_interop::c_program::{compile_mpi, compile_mpich};
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place};
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, everything, failed};
use nonic_interop::toolbox::{program, scratch};

/// What it goes over, by options of `mpirun`. `openib` finds its peers on InfiniBand ports only, as the distribution builds it.
const WAYS: [(&str, Link, bool, &str); 6] = [
    (
        "UCX's rc",
        Link::InfiniBand,
        true,
        "--mca pml ucx --mca osc ucx -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=nonic0:1",
    ),
    (
        "UCX's ud",
        Link::InfiniBand,
        true,
        "--mca pml ucx --mca osc ucx -x UCX_TLS=ud_v,self -x UCX_NET_DEVICES=nonic0:1",
    ),
    (
        "openib",
        Link::InfiniBand,
        true,
        "--mca pml ob1 --mca osc rdma --mca btl openib,self --mca btl_openib_allow_ib 1",
    ),
    (
        "openib without one-sided",
        Link::InfiniBand,
        false,
        "--mca pml ob1 --mca osc pt2pt --mca btl openib,self --mca btl_openib_allow_ib 1",
    ),
    (
        "UCX's rc on Ethernet",
        Link::Ethernet,
        false,
        "--mca pml ucx --mca osc ucx -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=nonic0:1",
    ),
    (
        "UCX's ud on Ethernet",
        Link::Ethernet,
        false,
        "--mca pml ucx --mca osc ucx -x UCX_TLS=ud_v,self -x UCX_NET_DEVICES=nonic0:1",
    ),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (name, link, always, options) in WAYS {
        if always || everything() {
            suite.test(format!("three ranks of Open MPI over {name}"), move || ranks(link, options));
        }
    }
    for transport in ["rc_v", "ud_v"] {
        suite.test(format!("three ranks of MPICH over UCX's {transport}"), move || ranks_of_mpich(transport));
    }
    suite.run()
}

/// A folder of a run's own, which every user may write to.
fn folder() -> Verdict<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = scratch().join(format!("run-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let made =
        fs::create_dir(&path).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o777)));
    made.map(|()| path.display().to_string()).or_else(|error| failed(format!("{}: {error}", path.display())))
}

fn ranks(link: Link, options: &str) -> Verdict {
    let folder = folder()?;
    let place = Place::prepare(Environment { link: Some(link), ..AS_IT_COMES })?
        .variable("HOME", &folder)
        // Where mpirun keeps what its processes share; two that start at once would make one folder.
        .variable("TMPDIR", &folder)
        // This device is in no list of those that Open MPI knows by their makers.
        .variable("OMPI_MCA_btl_openib_warn_no_device_params_found", "0");
    let mut words = vec![program("mpirun")?.display().to_string()];
    words.extend("--oversubscribe -n 3".split(' ').chain(options.split(' ')).map(String::from));
    words.push(compile_mpi("mpi")?.display().to_string());
    let finished = place.nonic_run(words)?.run()?;
    judge(&finished)
}

fn ranks_of_mpich(transport: &str) -> Verdict {
    let place = Place::prepare(Environment { link: Some(Link::InfiniBand), ..AS_IT_COMES })?
        .variable("HOME", &folder()?)
        .variable("UCX_TLS", &format!("{transport},self"))
        .variable("UCX_NET_DEVICES", "nonic0:1");
    let launcher = program("mpiexec.mpich")?.display().to_string();
    let file = compile_mpich("mpi")?.display().to_string();
    judge(&place.nonic_run([&launcher, "-n", "3", &file, "two-sided"])?.run()?)
}

fn judge(finished: &Finished) -> Verdict {
    match finished.succeeded() && finished.stdout.contains("3 ranks: all that was sent has come") {
        true => Ok(()),
        false => failed(format!("it failed\n{}", finished.report())),
    }
}
