//! Open MPI and MPICH of the distribution, three ranks on this host: over UCX's transports, and over Open MPI's own for verbs. And newer ones
//! as packages of Python bring them, with a UCX and a libfabric of their own; Intel's is over the distribution's libfabric. The program checks
//! every byte.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_interop::c_program::{compile_against_mpi, compile_mpi, compile_mpich};
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place};
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, everything, failed, skipped};
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

/// Where `ci/install` puts the packages, each in a folder of its name.
const PACKAGES: &str = "/usr/local/lib/nonic-tests/wheels/mpi";

/// A packaged MPI, and what it goes over, by options of its launcher and by variables.
type Packaged = (&'static str, &'static str, &'static str, &'static str);
const PACKAGED: [Packaged; 7] = [
    // UCX 1.20 makes its strong fence, where a transport knows no remote flush, by reading with a key that it calls invalid itself.
    ("openmpi", "UCX's rc", OPEN_MPI_OVER_UCX, "UCX_TLS=rc_v,self UCX_FENCE_MODE=weak"),
    ("openmpi", "UCX's ud", OPEN_MPI_OVER_UCX, "UCX_TLS=ud_v,self"),
    ("openmpi", "libfabric's verbs", "--oversubscribe --mca pml cm --mca mtl ofi --mca osc rdma", LIBFABRIC),
    ("mpich", "UCX's rc", "", "UCX_TLS=rc_v,self"),
    ("mpich", "UCX's ud", "", "UCX_TLS=ud_v,self"),
    ("mpich", "libfabric's verbs", "", LIBFABRIC),
    ("impi_rt", "libfabric's verbs", "", "I_MPI_FABRICS=ofi FI_PROVIDER=verbs"),
];
const OPEN_MPI_OVER_UCX: &str = "--oversubscribe --mca pml ucx --mca osc ucx";
const LIBFABRIC: &str = "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=verbs;ofi_rxm";

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
    for packaged in PACKAGED {
        let (name, way, ..) = packaged;
        suite.test(format!("three ranks of the package {name} over {way}"), move || {
            ranks_of_package(packaged)
        });
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

fn ranks_of_package((name, _, options, variables): Packaged) -> Verdict {
    let package = Path::new(PACKAGES).join(name);
    if !package.is_dir() {
        return skipped(format!(
            "{name} is not in {PACKAGES}: ci/install puts it there, where a registry is reached"
        ));
    }
    let folder = folder()?;
    let mut place = Place::prepare(Environment { link: Some(Link::InfiniBand), ..AS_IT_COMES })?
        .variable("HOME", &folder)
        .variable("TMPDIR", &folder)
        .variable("UCX_NET_DEVICES", "nonic0:1");
    for (variable, value) in variables.split(' ').filter_map(|word| word.split_once('=')) {
        place = place.variable(variable, value);
    }
    // Intel's package has no headers: its binary interface is MPICH's.
    let with_headers = if package.join("include").is_dir() { name } else { "mpich" };
    let file = compile_against_mpi("mpi", &package, &Path::new(PACKAGES).join(with_headers))?;
    let mut words = vec![package.join("bin/mpirun").display().to_string()];
    words.extend(options.split(' ').filter(|word| !word.is_empty()).map(String::from));
    words.extend(["-n".into(), "3".into(), file.display().to_string()]);
    let finished = place.nonic_run(words)?.run()?;
    // UCX asks the kernel's RDMA subsystem, which is not there, and would say so.
    match finished.printed().contains("UCX  ERROR") {
        true => failed(format!("UCX is not content\n{}", finished.report())),
        false => judge(&finished),
    }
}

fn judge(finished: &Finished) -> Verdict {
    match finished.succeeded() && finished.stdout.contains("3 ranks: all that was sent has come") {
        true => Ok(()),
        false => failed(format!("it failed\n{}", finished.report())),
    }
}
