//! Symbol versions.

/// Gives functions and data of this module the versioned names of `libibverbs.so.1`: `@@` is the version new
/// programs link with, `@` one that only older programs ask for.
///
/// The directive must stand in the module that defines the symbol: the compiler keeps a module in one object,
/// and the assembler can only name a version of a symbol it sees defined. For the same reason no other module
/// mentions the symbol: between the objects of one crate the optimiser would move it.
macro_rules! versions {
    ($($local:ident => $($public:expr),+;)+) => {
        // Unit tests are a program, which has no versions.
        $($(#[cfg(not(test))] core::arch::global_asm!(concat!(".symver ", stringify!($local), ", ", $public));)+)+
    };
}
