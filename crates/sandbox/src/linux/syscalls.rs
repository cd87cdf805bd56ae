//! System call names and numbers of the architecture we run on.

#[cfg(target_arch = "aarch64")]
#[path = "table_aarch64.rs"]
mod table;
#[cfg(target_arch = "x86_64")]
#[path = "table_x86_64.rs"]
mod table;

use table::BY_NAME;
pub use table::TABLE;

/// The AUDIT_ARCH value that seccomp reports for native calls.
#[cfg(target_arch = "x86_64")]
pub const NATIVE_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub const NATIVE_ARCH: u32 = 0xc000_00b7;

/// Numbers with this bit are x32 calls: the same kernel entry points under other numbers.
pub const X32_BIT: u32 = 0x4000_0000;

/// The number of a call on this architecture, if it has it.
pub fn number(name: &str) -> Option<u32> {
    BY_NAME.binary_search_by_key(&name, |(known, _)| known).ok().and_then(|i| BY_NAME.get(i)).map(|(_, n)| *n)
}

/// The name of a call number.
pub fn name(number: u32) -> Option<&'static str> {
    TABLE.binary_search_by_key(&number, |(_, n)| *n).ok().and_then(|i| TABLE.get(i)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_by_number_without_duplicates() {
        assert!(TABLE.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert!(BY_NAME.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(TABLE.iter().all(|(name, nr)| number(name) == Some(*nr)) && TABLE.len() == BY_NAME.len());
    }

    #[test]
    fn names_and_numbers_agree_with_the_c_library() {
        assert_eq!(number("openat"), Some(libc::SYS_openat as u32));
        assert_eq!(number("clone3"), Some(libc::SYS_clone3 as u32));
        assert_eq!(name(libc::SYS_execve as u32), Some("execve"));
        assert_eq!(number("no_such_call"), None);
    }
}
