//! `nonic run`: starts a program on the software device.

mod elf;
mod program;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::EXIT_REFUSED;
use crate::dat_options::DatOptions;
use crate::device_options::DeviceOptions;
use crate::library::{FindError, LibraryFolder};
use crate::preload;
use crate::scif_options::ScifOptions;
use crate::view_options::ViewOptions;
use program::LookupError;
pub(crate) use program::find as find_program;

const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Run a program on the software RDMA device
///
/// Puts nonic's libraries (libibverbs.so.1, librdmacm.so.1, libscif.so.0, libdat.so.1) in front of LD_LIBRARY_PATH, leads the registry of
/// uDAPL 2.0 to nonic's provider, and becomes the program, so that its signals and its exit status are those of the program itself. Programs need no rebuild. Both ends of a connection must run under nonic, on one
/// host and in one network namespace.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArguments {
    /// Run the program even if it looks as if it would not use the libraries
    #[arg(long)]
    force: bool,

    /// TCP connections of the program go over RDMA where the other side listens so, too; else over TCP as ever
    ///
    /// Loads libnonic-sockets.so in front of the C library (LD_PRELOAD), in the program and in programs that it starts.
    #[arg(long)]
    sockets: bool,

    /// The program, by path or by name (looked up in PATH), and its arguments
    #[arg(required = true, value_name = "PROGRAM", trailing_var_arg = true)]
    program: Vec<OsString>,

    #[command(flatten)]
    view: ViewOptions,

    #[command(flatten)]
    device: DeviceOptions,

    #[command(flatten)]
    scif: ScifOptions,

    #[command(flatten)]
    dat: DatOptions,
}

const AFTER_HELP: &str = "\
Examples:
  nonic run -- ibv_devinfo -v
  nonic run -- ib_write_bw                    a server; then, in another terminal:
  nonic run -- ib_write_bw localhost          its client
  nonic run --link-layer ethernet -- ibv_rc_pingpong -g 0
  nonic run --tier ring --log debug -- ib_send_lat
  nonic run -- rping -s                       rdma_cm: a server; its client: rping -c -a localhost
  nonic run --sockets -- redis-server         TCP over RDMA; its client: nonic run --sockets -- redis-cli
  nonic run --devices 2 --device-name mlx5_ -- ibv_devices
  nonic run -- cat /sys/class/infiniband/nonic0/ports/1/rate
  nonic run --node 0 -- ./host_program        SCIF: the host; then, in another terminal:
  nonic run --node 1 -- ./card_program        its card
  nonic run --scif-port-min 40 -- ./daemon    one that binds ports kept for root
  nonic run -- dtest -P nonic -s              uDAPL: a server; its client: -h localhost
  nonic run --noncoherent -- ./dat_program    uDAPL: does it call dat_lmr_sync_rdma_write?

Environment, each set by the flag that names it, else passed on as it is:
  NONIC_VIEW           on, or off: programs do not see the devices' files; default on
  NONIC_DEVICES        number of devices, 1 to 16; default 1
  NONIC_DEVICE_NAME    their names without the index; default nonic
  NONIC_LINK_LAYER     infiniband or ethernet; default infiniband
  NONIC_DEVICE_MEMORY  bytes of device memory, K, M and G allowed; default 64M
  NONIC_DEVICE_MEMORY_GRANULE  offsets and lengths of copies to and from it are multiples of this; default 1
  NONIC_TIER           auto, mapped, kernel or ring; default auto
  NONIC_EXPRESS        on, or off: short requests take the ways of all others; default on
  NONIC_ADOPT          auto, always or never move private memory where peers map it; default auto
  NONIC_FORK_COPY      adopted bytes a fork copies into the child at most; default 256M
  NONIC_REST           auto, always or never cease to look at rings of silent peers; default auto
  NONIC_WIRE           off, auto or roce: whether queue pairs reach other hosts; default auto
  NONIC_MTU            bytes of a message in a packet to another host, 256 to 4096; default 4096
  NONIC_WIRE_SILENCE   seconds until a silent peer on another host counts as gone, 0 never; default 20
  NONIC_MEET           a folder in which processes of other network namespaces of this host are met; default none
  NONIC_FAULTS         a file with changes of the device and their times, as nonic ctl makes them; default none
  NONIC_LOG            off, error, warn, info, debug or trace; default warn
  NONIC_PTRACE         any: let processes of the same user copy despite Yama
  NONIC_TRUST          users whose processes may reach memory without a proof
  NONIC_SOCKETS        with --sockets: on; connect: listen by TCP alone; off: leave TCP to the kernel;
                       default on
  NONIC_SCIF_NODE      the program's SCIF node; default 0
  NONIC_SCIF_NODES     nodes that count as online, like 0,1 or 0-3; default: those with programs
  NONIC_SCIF_HOSTS     addresses of the hosts that are nodes 0, 1 and up; default none
  NONIC_SCIF_PORT_MIN  lowest SCIF port that needs no CAP_SYS_ADMIN; default 1024
  NONIC_NONCOHERENT    1: all uDAPL adapters need dat_lmr_sync_rdma_write and _read; default 0
  NONIC_CACHE_SEED     their cache, where a call is missing, does the same for the same number; default 0
Environment of SCIF without a flag, passed on as it is:
  NONIC_SCIF_FABRIC    programs reach only those with the same word here; default 0
  NONIC_SCIF_MEMLOCK   1: registering more than RLIMIT_MEMLOCK fails with EAGAIN; default 0
Environment read by this command:
  NONIC_LIB_DIR        folder with the libraries; default: beside this command
  LD_LIBRARY_PATH      kept, behind nonic's folder
  LD_PRELOAD           kept, behind nonic's libraries for files and for --sockets, before the one for verbs
  ASAN_OPTIONS         verify_asan_link_order=0 behind what is there, since libraries stand in front
  XDG_RUNTIME_DIR      folder in which the devices' files are put up; default /dev/shm, else /tmp
  DAT_OVERRIDE         kept; else set to nonic's dat.conf

Exit status:
  that of PROGRAM, once it runs
  2    bad usage, or a program that could not use the libraries: statically linked,
       for another machine, setuid, setgid or with file capabilities (--force runs it anyway)
  126  PROGRAM is there but cannot be executed
  127  PROGRAM is not there";

/// What is known about a program before it runs.
pub(crate) struct Checked {
    /// The file to execute.
    file: PathBuf,
    /// What the loader would put in front of the program's libraries.
    search_path: OsString,
    /// The folder with the libraries.
    libraries: LibraryFolder,
    /// Whether libraries can be put in front of its own.
    takes_preloads: bool,
    /// The program as the user named it, with the interpreter that does the work when it is a script.
    pub(crate) subject: String,
    /// Why it would not use the libraries, if so.
    pub(crate) unsuitable: Option<program::Unsuitable>,
    /// What may surprise.
    pub(crate) warnings: Vec<String>,
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Program(#[from] LookupError),
    #[error(transparent)]
    Library(#[from] FindError),
}

impl CheckError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Program(LookupError::NotFound(_)) => EXIT_NOT_FOUND,
            Self::Program(LookupError::NotExecutable(..)) => EXIT_NOT_EXECUTABLE,
            Self::Library(_) => EXIT_REFUSED,
        }
    }
}

/// Becomes the program; returns only if that failed.
pub(crate) fn main(arguments: &RunArguments) -> ExitCode {
    let (name, rest) = arguments.program.split_first().expect("the definition requires a program");
    let checked = match examine(name, &arguments.view) {
        Ok(checked) => checked,
        Err(error) => return refuse(&error.to_string(), error.exit_status()),
    };
    for warning in &checked.warnings {
        eprintln!("nonic: {}: {warning}", checked.subject);
    }
    if let (Some(reason), false) = (&checked.unsuitable, arguments.force) {
        let subject = &checked.subject;
        let words = format!(
            "{subject} cannot use the software device: {reason}. To run it anyway: nonic run --force"
        );
        return refuse(&words, EXIT_REFUSED);
    }
    let mut command = Command::new(&checked.file);
    command
        .arg0(name)
        .args(rest)
        .envs(arguments.device.environment())
        .envs(arguments.scif.environment())
        .envs(arguments.view.environment())
        .envs(arguments.dat.environment(checked.libraries.path()))
        .env("LD_LIBRARY_PATH", &checked.search_path);
    match preloads(arguments, &checked) {
        Ok(Some(preload)) => {
            let options = std::env::var_os(preload::SANITIZER_VARIABLE);
            let options = preload::with_sanitizer_option(options.as_deref());
            command.env(preload::VARIABLE, preload);
            command.envs(options.map(|options| (preload::SANITIZER_VARIABLE, options)));
        }
        Ok(None) => {}
        Err(error) => return refuse(&error.to_string(), EXIT_REFUSED),
    }
    let error = command.exec();
    refuse(&format!("{}: cannot be executed: {error}", checked.file.display()), EXIT_NOT_EXECUTABLE)
}

/// What the loader is to load first, if it is another than what the user named: what was asked for has to be there, what comes unasked
/// need not.
fn preloads(arguments: &RunArguments, checked: &Checked) -> Result<Option<OsString>, preload::PreloadError> {
    let before = std::env::var_os(preload::VARIABLE);
    let mut value = before.clone();
    if arguments.sockets {
        let library = checked.libraries.sockets_library();
        preload::check(&library, "without --sockets")?;
        value = Some(preload::in_front(&library, value.as_deref()));
    }
    if checked.takes_preloads {
        value = arguments.view.put_in(&checked.libraries, value, "with --no-preload");
    }
    Ok(value.filter(|value| Some(value) != before.as_ref()))
}

/// Whether a program would use the libraries, without running it; the error is a sentence.
pub(crate) fn check(name: &OsStr) -> Result<Checked, String> {
    examine(name, &ViewOptions::default()).map_err(|error| error.to_string())
}

fn examine(name: &OsStr, view: &ViewOptions) -> Result<Checked, CheckError> {
    let path = std::env::var_os("PATH");
    let file = program::find(name, path.as_deref())?;
    let folder = LibraryFolder::find()?;
    let findings = program::inspect(&file, &folder, view.loads_verbs(), path.as_deref());
    Ok(Checked {
        search_path: folder.search_path(std::env::var_os("LD_LIBRARY_PATH").as_deref()),
        takes_preloads: findings.takes_preloads,
        subject: subject(name, &file, &findings.loaded),
        unsuitable: findings.unsuitable,
        warnings: findings.warnings,
        file,
        libraries: folder,
    })
}

fn subject(name: &OsStr, file: &Path, loaded: &Path) -> String {
    if file == loaded {
        name.to_string_lossy().into_owned()
    } else {
        format!("{}, interpreter of the script {}", loaded.display(), name.to_string_lossy())
    }
}

fn refuse(words: &str, status: u8) -> ExitCode {
    eprintln!("nonic: {words}");
    ExitCode::from(status)
}
