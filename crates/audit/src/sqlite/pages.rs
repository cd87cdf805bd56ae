//! Pages, one after the other into a file; the first one last, because it says how many there are.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

use super::SqliteError;

/// The usual size, and what SQLite itself makes.
pub const PAGE: usize = 4096;
/// The bytes of the first page that are the file's own header.
pub const FILE_HEADER: usize = 100;
/// The page with the byte that SQLite locks at 1 GiB holds nothing, ever.
const LOCKED: u32 = (0x4000_0000 / PAGE as u32) + 1;

pub type Bytes = [u8; PAGE];

#[derive(Debug)]
pub struct Pages {
    out: BufWriter<File>,
    /// How many have been written.
    count: u32,
}

impl Pages {
    pub fn new(file: File) -> Result<Self, SqliteError> {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        // The first page is written at the end.
        out.write_all(&[0; PAGE])?;
        Ok(Self { out, count: 1 })
    }

    /// Writes a page and says its number.
    pub fn append(&mut self, page: &Bytes) -> Result<u32, SqliteError> {
        let number = self.next()?;
        if number != self.count + 1 {
            self.out.write_all(&[0; PAGE])?;
        }
        self.out.write_all(page)?;
        self.count = number;
        Ok(number)
    }

    /// The number of the page that is appended next.
    pub fn next(&self) -> Result<u32, SqliteError> {
        self.following(self.count)
    }

    /// The number of the page that is appended after another.
    pub fn following(&self, number: u32) -> Result<u32, SqliteError> {
        // SQLite counts up to one less than the last number.
        let next = number.checked_add(1).filter(|next| *next < u32::MAX).ok_or(SqliteError::TooLarge)?;
        Ok(if next == LOCKED { next + 1 } else { next })
    }

    /// Puts the header into the first page and writes it.
    pub fn finish(mut self, mut first: Bytes) -> Result<File, SqliteError> {
        let mut header = Vec::with_capacity(FILE_HEADER);
        header.extend_from_slice(b"SQLite format 3\0");
        header.extend_from_slice(&(PAGE as u16).to_be_bytes());
        // A rollback journal for reading and writing; nothing reserved; the three fractions are fixed.
        header.extend_from_slice(&[1, 1, 0, 64, 32, 32]);
        let change_counter = 1u32;
        let (free_pages, schema_cookie, schema_format, utf8) = (0u32, 1u32, 4u32, 1u32);
        for number in [
            change_counter,
            self.count,
            free_pages,
            free_pages,
            schema_cookie,
            schema_format,
            0,
            0,
            utf8,
            0,
            0,
            0,
        ] {
            header.extend_from_slice(&number.to_be_bytes());
        }
        header.extend_from_slice(&[0; 20]);
        // Whose count of pages is valid for which change, and the version whose rules were followed.
        header.extend_from_slice(&change_counter.to_be_bytes());
        header.extend_from_slice(&3_040_001u32.to_be_bytes());
        if let Some(place) = first.get_mut(..FILE_HEADER) {
            place.copy_from_slice(&header);
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&first)?;
        self.out.into_inner().map_err(|error| SqliteError::Write(error.into_error()))
    }

    /// As if so many pages had been written, for tests of what comes after.
    #[cfg(test)]
    pub fn pretend(&mut self, count: u32) {
        self.count = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_sqlite_locks_is_never_used() {
        let path = std::env::temp_dir().join(format!("lazaret-pages-{}", std::process::id()));
        let mut pages = Pages::new(File::create(&path).unwrap()).unwrap();
        assert_eq!(pages.append(&[0; PAGE]).unwrap(), 2);
        pages.pretend(LOCKED - 2);
        assert_eq!(pages.append(&[0; PAGE]).unwrap(), LOCKED - 1);
        assert_eq!(pages.next().unwrap(), LOCKED + 1);
        assert_eq!(pages.append(&[0; PAGE]).unwrap(), LOCKED + 1);
        assert_eq!(pages.append(&[0; PAGE]).unwrap(), LOCKED + 2);
        pages.pretend(u32::MAX - 1);
        assert!(matches!(pages.append(&[0; PAGE]), Err(SqliteError::TooLarge)));
        std::fs::remove_file(path).unwrap();
    }
}
