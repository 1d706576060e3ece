//! What the kernel keeps of an area beside its rights. Only `/proc/self/smaps` tells it, which walks every page of the process;
//! here the kernel is asked by calls that refuse, or do nothing, by it.

use std::io;

use crate::area_map::AreaMap;
use crate::virtual_memory::{MemoryArea, PAGE};

/// Whether some of a mapped range is locked (`mlock(2)`): `msync` refuses to invalidate what is, and does nothing otherwise.
pub fn is_locked(address: usize, length: usize) -> bool {
    // SAFETY: without MS_SYNC the call only looks.
    let refused = unsafe { libc::msync(address as *mut libc::c_void, length, libc::MS_INVALIDATE) } != 0;
    refused && io::Error::last_os_error().raw_os_error() == Some(libc::EBUSY)
}

/// Locks a range whose pages were locked before: those that are there now, the others when they appear.
pub fn lock_pages(address: usize, length: usize) -> io::Result<()> {
    // SAFETY: locking changes no contents and no rights.
    match unsafe { libc::mlock2(address as *const libc::c_void, length, libc::MLOCK_ONFAULT) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether an area grows downwards when the page below it is touched (`MAP_GROWSDOWN`), as stacks do: only such an area's
/// rights can be changed with `PROT_GROWSDOWN`. They are set to what they are. `page` is of the area, and nobody unmaps it
/// meanwhile.
pub fn grows_down(area: &MemoryArea, page: usize) -> bool {
    let rights = [
        (area.readable, libc::PROT_READ),
        (area.writable, libc::PROT_WRITE),
        (area.executable, libc::PROT_EXEC),
    ];
    let same = rights.iter().filter(|(allowed, _)| *allowed).fold(0, |all, (_, one)| all | one);
    // SAFETY: the rights are those that the area has; where it does not grow down, the call fails before it looks at them.
    unsafe { libc::mprotect(page as *mut libc::c_void, PAGE, same | libc::PROT_GROWSDOWN) == 0 }
}

/// Whether this process may not make memory that can be both written and executed (`PR_SET_MDWE`): what is such already could
/// not be made anew.
pub fn refuses_new_code() -> bool {
    const PR_GET_MDWE: libc::c_int = 66;
    // SAFETY: the call only asks; a kernel that does not know it (before 6.3) refuses.
    unsafe { libc::prctl(PR_GET_MDWE, 0, 0, 0, 0) > 0 }
}

/// Advice about what others see of memory, and what takes it back.
const ADVICE: [(libc::c_int, libc::c_int); 3] = [
    (libc::MADV_DONTFORK, libc::MADV_DOFORK),
    (libc::MADV_DONTDUMP, libc::MADV_DODUMP),
    (libc::MADV_WIPEONFORK, libc::MADV_KEEPONFORK),
];
/// What `/proc/self/smaps` calls each of them.
const NAMES: [&str; 3] = ["dc", "dd", "wf"];

/// What keeps an area out of children or core dumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaAdvice(u8);

impl AreaAdvice {
    /// There is none.
    pub const NONE: Self = Self(0);

    /// Whether children find zeros there (`MADV_WIPEONFORK`), which only anonymous private memory can do.
    pub fn wipes_on_fork(self) -> bool {
        self.0 & 1 << 2 != 0
    }

    /// Gives it to a range, and takes back what it is not.
    pub fn give_exactly(self, address: usize, length: usize) -> io::Result<()> {
        for (_, show) in ADVICE {
            advise(address, length, show)?;
        }
        self.give(address, length)
    }

    /// Gives it to a range. Fails where memory of that kind cannot have it.
    pub fn give(self, address: usize, length: usize) -> io::Result<()> {
        for (index, (hide, _)) in ADVICE.iter().enumerate() {
            if self.0 & 1 << index != 0 {
                advise(address, length, *hide)?;
            }
        }
        Ok(())
    }
}

fn advise(address: usize, length: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the advice concerns children and dumps only.
    match unsafe { libc::madvise(address as *mut libc::c_void, length, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What an area was given of that advice. All of it is taken back for one `page` of it, which nobody unmaps meanwhile: if there
/// was none, nothing changes; if there was some, the area falls apart, and the page is given advice until it is whole again. What
/// else the page may have become one with meanwhile, a neighbour without advice, does not count. Of an area of one page this cannot
/// be told: then `search` has the text of `/proc/self/smaps` read, which takes as long as copying a thousand pages;
/// without it there is none.
///
/// Whoever calls keeps the process from forking meanwhile.
pub fn area_advice(areas: &AreaMap, area: &MemoryArea, page: usize, search: bool) -> io::Result<AreaAdvice> {
    let is_whole = || -> io::Result<bool> {
        Ok(areas.at_or_above(page)?.is_some_and(|now| now.start <= area.start && now.end >= area.end))
    };
    let give = |given: u8| {
        for (index, (hide, show)) in ADVICE.iter().enumerate() {
            // What the area had not been given before is gone again when this function returns.
            let _ = advise(page, PAGE, if given & 1 << index != 0 { *hide } else { *show });
        }
    };
    if area.end - area.start <= PAGE {
        return if search { advice_in_text(area) } else { Ok(AreaAdvice::NONE) };
    }
    give(0);
    if is_whole()? {
        return Ok(AreaAdvice::NONE);
    }
    for given in 1..1 << ADVICE.len() {
        give(given);
        if is_whole()? {
            return Ok(AreaAdvice(given));
        }
    }
    // The program has just unmapped or changed what follows.
    give(0);
    Ok(AreaAdvice::NONE)
}

fn advice_in_text(area: &MemoryArea) -> io::Result<AreaAdvice> {
    use std::io::{BufRead, BufReader};
    let head = format!("{:x}-{:x} ", area.start, area.end);
    let lines = BufReader::new(std::fs::File::open("/proc/self/smaps")?).lines().map_while(Result::ok);
    let mut of_area = lines.skip_while(|line| !line.starts_with(&head));
    let flags = of_area.find(|line| line.starts_with("VmFlags:")).unwrap_or_default();
    let given = |name: &str| flags.split_ascii_whitespace().any(|flag| flag == name);
    let bits = NAMES.iter().enumerate().filter(|(_, name)| given(name)).map(|(index, _)| 1 << index);
    Ok(AreaAdvice(bits.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_area;

    /// Private memory with inaccessible pages on both sides, so that it is an area of its own.
    struct Pages {
        whole: *mut libc::c_void,
        length: usize,
    }

    impl Pages {
        fn new(pages: usize, flags: libc::c_int) -> Self {
            let length = (pages + 2) * PAGE;
            // SAFETY: new mappings; the second replaces the middle of the first.
            unsafe {
                let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let whole = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, private, -1, 0);
                assert_ne!(whole, libc::MAP_FAILED);
                let (middle, rights) = (whole.byte_add(PAGE), libc::PROT_READ | libc::PROT_WRITE);
                let flags = private | libc::MAP_FIXED | flags;
                assert_eq!(libc::mmap(middle, pages * PAGE, rights, flags, -1, 0), middle);
                Self { whole, length }
            }
        }

        fn start(&self) -> usize {
            self.whole as usize + PAGE
        }

        fn area(&self) -> MemoryArea {
            find_area(self.start()).unwrap().unwrap()
        }

        fn advise(&self, advice: libc::c_int) {
            let (start, length) = (self.start() as *mut libc::c_void, self.length - 2 * PAGE);
            // SAFETY: the pages are this test's.
            assert_eq!(unsafe { libc::madvise(start, length, advice) }, 0);
        }

        /// As `/proc/self/smaps` tells them.
        fn flags(&self) -> String {
            let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let head = format!("{:x}-", self.start());
            let area = text.lines().skip_while(|line| !line.starts_with(&head));
            area.skip(1).find(|line| line.starts_with("VmFlags:")).unwrap().to_owned()
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the pages are this test's.
            unsafe { libc::munmap(self.whole, self.length) };
        }
    }

    #[test]
    fn advice_is_found_and_stays_as_it_is() {
        let areas = AreaMap::open().unwrap();
        for given in 0..1 << ADVICE.len() {
            let pages = Pages::new(3, 0);
            for (index, (hide, _)) in ADVICE.iter().enumerate() {
                if given & 1 << index != 0 {
                    pages.advise(*hide);
                }
            }
            let (area, flags) = (pages.area(), pages.flags());
            for page in 0..3 {
                let page = pages.start() + page * PAGE;
                assert_eq!(area_advice(&areas, &area, page, false).unwrap(), AreaAdvice(given), "{flags}");
                assert_eq!((pages.area(), pages.flags()), (area, flags.clone()));
            }
        }
    }

    #[test]
    fn advice_is_found_at_the_border_of_memory_without_it() {
        let areas = AreaMap::open().unwrap();
        for (hide, show) in ADVICE {
            let pages = Pages::new(9, 0);
            // Touched before: then the kernel makes one area of neighbours that are advised alike.
            for page in 0..9 {
                // SAFETY: the pages are this test's.
                unsafe { ((pages.start() + page * PAGE) as *mut u8).write_volatile(1) };
            }
            advise(pages.start() + 3 * PAGE, 3 * PAGE, hide).unwrap();
            let area = find_area(pages.start() + 3 * PAGE).unwrap().unwrap();
            assert_eq!((area.start, area.end), (pages.start() + 3 * PAGE, pages.start() + 6 * PAGE));
            for page in (area.start..area.end).step_by(PAGE) {
                assert_ne!(area_advice(&areas, &area, page, false).unwrap(), AreaAdvice::NONE, "{hide}");
                assert_eq!(find_area(page).unwrap(), Some(area));
            }
            advise(area.start, 3 * PAGE, show).unwrap();
        }
    }

    #[test]
    fn the_advice_of_a_single_page_is_left_alone_and_found_in_the_text() {
        let pages = Pages::new(1, 0);
        pages.advise(libc::MADV_DONTFORK);
        let (flags, areas) = (pages.flags(), AreaMap::open().unwrap());
        assert_eq!(area_advice(&areas, &pages.area(), pages.start(), false).unwrap(), AreaAdvice::NONE);
        assert_eq!(area_advice(&areas, &pages.area(), pages.start(), true).unwrap(), AreaAdvice(1));
        assert_eq!(pages.flags(), flags);
    }

    #[test]
    fn only_memory_for_a_stack_grows_down() {
        for (flags, expected) in [(0, false), (libc::MAP_GROWSDOWN, true)] {
            let pages = Pages::new(2, flags);
            let before = (pages.area(), pages.flags());
            assert_eq!(grows_down(&pages.area(), pages.start() + PAGE), expected);
            assert_eq!((pages.area(), pages.flags()), before);
        }
    }

    #[test]
    fn locked_pages_are_known() {
        let pages = Pages::new(2, 0);
        assert!(!is_locked(pages.start(), 2 * PAGE));
        lock_pages(pages.start() + PAGE, PAGE).unwrap();
        assert!(is_locked(pages.start(), 2 * PAGE) && !is_locked(pages.start(), PAGE));
    }
}
