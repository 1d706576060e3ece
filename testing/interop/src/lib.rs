//! Outside judges of `nonic`: programs that know nothing of it.
//!
//! The tests of this package run the RDMA programs of the distribution, unmodified, and C programs compiled against
//! the distribution's own header, always as an ordinary user, always through `nonic run`, and judge them by their
//! exit status *and* by what they print: several of them exit with 0 after a failure.
//!
//! A test is a row of a table: a case (what is run and how it is judged) in an environment (tier, link layer, network
//! namespace, CPU). Adding a program, a case or a tier is one line. By default every case runs as it comes and a
//! representative part runs in every environment; `NONIC_INTEROP_FULL=1` runs everything everywhere.
//!
//! What a test needs and does not find (a program, the build) is a failure that names the command to run. What the
//! machine cannot give (root, a sysctl) is a skip, printed and counted.
#![forbid(unsafe_code)]

pub mod c_program;
pub mod dapl;
pub mod environment;
pub mod namespace;
pub mod output;
pub mod pair;
pub mod port;
pub mod program;
pub mod scif;
mod stuck;
pub mod suite;
pub mod toolbox;
