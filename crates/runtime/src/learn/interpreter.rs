//! What the kernel loads besides an executed file: the program after `#!`, or the loader that an ELF file names.

/// As much of a file as has to be looked at: the program headers lie at its beginning.
pub const HEAD: usize = 4096;

/// Another file that is executed with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// After `#!`.
    Script(Vec<u8>),
    /// The dynamic loader.
    Loader(Vec<u8>),
}

/// By the beginning of the file.
pub fn of(head: &[u8]) -> Option<Interpreter> {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?;
        let program =
            line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0)).find(|word| !word.is_empty())?;
        return Some(Interpreter::Script(program.to_vec()));
    }
    loader(head).map(Interpreter::Loader)
}

/// Is this a script without `#!`?
pub fn is_plain_text(head: &[u8]) -> bool {
    !head.contains(&0) && !head.starts_with(b"\x7fELF") && !head.starts_with(b"#!")
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    // Little-endian, as all machines this runs on.
    let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).ok()
}

/// The program header PT_INTERP of a 64-bit ELF file.
fn loader(head: &[u8]) -> Option<Vec<u8>> {
    const PT_INTERP: usize = 3;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(head, 32, 8)?, number(head, 54, 2)?, number(head, 56, 2)?);
    for index in 0..count.min(64) {
        let header = table.checked_add(index.checked_mul(size)?)?;
        if number(head, header, 4)? == PT_INTERP {
            let (offset, length) = (number(head, header + 8, 8)?, number(head, header + 32, 8)?);
            let name = head.get(offset..offset.checked_add(length)?)?;
            return Some(name.split(|byte| *byte == 0).next()?.to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_after_the_mark_is_the_interpreter() {
        let of = |text: &str| of(text.as_bytes());
        assert_eq!(of("#!/bin/sh\necho"), Some(Interpreter::Script(b"/bin/sh".to_vec())));
        assert_eq!(of("#! /usr/bin/env python3\n"), Some(Interpreter::Script(b"/usr/bin/env".to_vec())));
        assert_eq!(of("#!\n/bin/sh"), None);
        assert_eq!(of("echo"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn the_loader_of_a_real_program_is_found() {
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let mut head = std::fs::read(shell).unwrap();
        head.truncate(HEAD);
        match of(&head) {
            Some(Interpreter::Loader(path)) => assert!(path.starts_with(b"/lib"), "{path:?}"),
            // A shell that is linked statically has none.
            other => assert_eq!(other, None),
        }
    }

    #[test]
    fn a_file_that_is_cut_off_or_lies_has_no_loader() {
        let mut head = b"\x7fELF\x02\x01".to_vec();
        assert_eq!(of(&head), None);
        head.resize(64, 0xff);
        assert_eq!(of(&head), None);
        head.resize(4096, 0xff);
        assert_eq!(of(&head), None);
    }
}
