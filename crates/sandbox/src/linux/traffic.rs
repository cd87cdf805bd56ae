//! What was read and written: the kernel's own counts, of a process that has ended and of a control group.

use std::fs;

/// What went through calls such as `read` and `write`, whatever lay behind: a file in memory, a pipe, a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// Of a process and everything it has waited for. `None` where the kernel does not count it.
pub fn of_calls(pid: i32) -> Option<Calls> {
    parse(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?)
}

fn parse(text: &str) -> Option<Calls> {
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse::<u64>().ok())
    };
    Some(Calls {
        read_bytes: field("rchar")?,
        written_bytes: field("wchar")?,
        reads: field("syscr")?,
        writes: field("syscw")?,
    })
}

/// Bytes read and written of version 2: a line for each disk.
pub fn io_stat(text: &str) -> (u64, u64) {
    let sum = |key: &str| {
        text.split_whitespace().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).sum()
    };
    (sum("rbytes="), sum("wbytes="))
}

/// The same of version 1: a line for each disk and direction.
pub fn blkio(text: &str) -> (u64, u64) {
    let sum = |direction: &str| {
        let of_disk = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            (words.next() == Some(direction)).then(|| words.next()?.parse::<u64>().ok()).flatten()
        };
        text.lines().filter_map(of_disk).sum()
    };
    (sum("Read"), sum("Write"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_tell_reading_from_writing() {
        let two = "254:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n254:16 rbytes=1 wbytes=2 rios=1 wios=1\n";
        assert_eq!(io_stat(two), (4097, 514));
        assert_eq!(io_stat(""), (0, 0));
        let one = "254:0 Read 10\n254:0 Write 5\n254:0 Sync 0\n254:0 Total 15\n254:16 Read 1\n254:16 Write 2\nTotal 18\n";
        assert_eq!(blkio(one), (11, 7));
    }

    #[test]
    fn the_counts_of_calls_are_complete_or_not_there() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        assert_eq!(parse(text), Some(Calls { read_bytes: 1, written_bytes: 2, reads: 3, writes: 4 }));
        assert_eq!(parse("rchar: 1\n"), None);
    }

    #[test]
    fn the_kernel_counts_what_this_process_reads() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = of_calls(own).unwrap();
        let read = fs::read("/proc/self/maps").unwrap().len() as u64;
        let after = of_calls(own).unwrap();
        assert!(after.read_bytes >= before.read_bytes + read && after.reads > before.reads);
    }
}
