//! Pages of private memory that lie in a file which peers can map, and why others do not.

/// Log2 of the bytes of a layer: the address space of a program.
pub const LAYER_BITS: u32 = 47;

/// Whole pages of this process that lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdoptedPages {
    /// Which layer of the file.
    pub layer: u16,
    /// First byte, a multiple of the page size.
    pub start: usize,
    /// One past the last byte, a multiple of the page size.
    pub end: usize,
}

/// Where the layer stands in a word with an address.
const LAYER_SHIFT: u32 = 48;

impl AdoptedPages {
    /// As the two words of an entry: the layer in the upper bits of the first.
    pub(crate) fn to_words(self) -> (u64, u64) {
        (self.start as u64 | u64::from(self.layer) << LAYER_SHIFT, self.end as u64)
    }

    /// From the words of an entry, which may be another process's: any two words are some pages.
    #[inline]
    pub(crate) fn from_words(start: u64, end: u64) -> Self {
        let layer = (start >> LAYER_SHIFT) as u16;
        Self { layer, start: (start & ((1 << LAYER_SHIFT) - 1)) as usize, end: end as usize }
    }

    /// Whether all of `length` bytes at `address` lie in the file.
    pub fn contain(&self, address: usize, length: usize) -> bool {
        address >= self.start && address <= self.end && length <= self.end - address
    }

    /// Offset in the file of the byte at `address`, which lies inside.
    pub fn file_offset(&self, address: usize) -> u64 {
        u64::from(self.layer) << LAYER_BITS | address as u64
    }
}

/// Why the bytes of a region, or some of them, stay where only the kernel or this process can copy them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PlainReason {
    /// There is none: all whole pages are adopted.
    #[default]
    None = 0,
    /// Adoption was not wanted.
    Disabled = 1,
    /// The region gives peers no rights and is too small for its sends to gain.
    LocalOnly = 2,
    /// The region has no whole page.
    NoWholePage = 3,
    /// The memory is no ordinary private memory: a private file mapping, huge pages, something of the kernel's, or, but for
    /// windows, memory with code or memory that the program keeps out of children or core dumps (`MADV_DONTFORK`,
    /// `MADV_WIPEONFORK`, `MADV_DONTDUMP`).
    NotOrdinary = 4,
    /// The memory is a stack.
    Stack = 5,
    /// The memory is locked (`mlock(2)`), and would not stay so.
    Locked = 6,
    /// The kernel holds pages of the process (`VmPin`: io_uring buffers), which may be these, and would go on using the old ones.
    KernelPins = 7,
    /// Registrations like this one have been too short to gain.
    ShortLived = 8,
    /// Other threads run, and userfaultfd is refused: nothing could hold them back meanwhile.
    NoProtection = 9,
    /// Another region on the same pages is not adopted, or in another layer.
    OtherRegion = 10,
    /// No file as large as the address space can be made (`RLIMIT_FSIZE`, memory).
    NoFile = 11,
    /// A debugger's machine runs the program (valgrind), which does not know such mappings.
    Emulated = 12,
    /// A step failed, and everything is as it was.
    Failed = 13,
    /// The process has too many separate adopted places: each takes mappings, of which the kernel allows so many.
    TooManyMappings = 14,
    /// A device is open through which a driver may hold pages of the process (AF_XDP, a graphics card, a camera, vhost, ...), and
    /// would go on using the old ones.
    DriverPins = 15,
}

impl PlainReason {
    /// From the number that stands in an entry of the key table.
    pub fn from_number(number: u8) -> Option<Self> {
        const ALL: [PlainReason; 16] = [
            PlainReason::None,
            PlainReason::Disabled,
            PlainReason::LocalOnly,
            PlainReason::NoWholePage,
            PlainReason::NotOrdinary,
            PlainReason::Stack,
            PlainReason::Locked,
            PlainReason::KernelPins,
            PlainReason::ShortLived,
            PlainReason::NoProtection,
            PlainReason::OtherRegion,
            PlainReason::NoFile,
            PlainReason::Emulated,
            PlainReason::Failed,
            PlainReason::TooManyMappings,
            PlainReason::DriverPins,
        ];
        ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_survive_their_words() {
        let pages = AdoptedPages { layer: u16::MAX, start: 0x7fff_ffff_e000, end: 0x7fff_ffff_f000 };
        let (start, end) = pages.to_words();
        assert_eq!(AdoptedPages::from_words(start, end), pages);
        assert!(pages.contain(pages.start, 4096) && pages.contain(pages.end, 0));
        assert!(!pages.contain(pages.start - 1, 2) && !pages.contain(pages.start + 1, 4096));
        assert!(!pages.contain(pages.end, 1) && !pages.contain(usize::MAX, 1));
    }

    #[test]
    fn a_reason_survives_its_number() {
        for number in 0..=u8::MAX {
            match PlainReason::from_number(number) {
                Some(reason) => assert_eq!(reason as u8, number),
                None => assert!(number > PlainReason::DriverPins as u8),
            }
        }
    }
}
