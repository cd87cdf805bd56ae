//! The b-tree of a table, from its leaves up: rows come in order, so that every page is full and written once.

use super::SqliteError;
use super::pages::{Bytes, FILE_HEADER, PAGE, Pages};
use super::record::varint;

const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;
/// The most of a row that lies in its leaf, and what lies there of one that does not fit. The numbers are the
/// format's: four cells fit on a page whatever happens.
const MAX_LOCAL: usize = PAGE - 35;
const MIN_LOCAL: usize = (PAGE - 12) * 32 / 255 - 23;
const OVERFLOW: usize = PAGE - 4;

/// A page of cells being filled: pointers grow from the front, cells from the back.
#[derive(Debug)]
pub struct Page {
    bytes: Bytes,
    /// Where its header begins.
    start: usize,
    header: usize,
    cells: usize,
    content: usize,
}

impl Page {
    fn new(start: usize, header: usize) -> Self {
        Self { bytes: [0; PAGE], start, header, cells: 0, content: PAGE }
    }

    /// The first of a file, a leaf after the file's own header.
    pub fn first() -> Self {
        Self::new(FILE_HEADER, 8)
    }

    /// Adds a cell, if there is room for it.
    pub fn add(&mut self, cell: &[u8]) -> bool {
        let pointer = self.start + self.header + 2 * self.cells;
        let Some(content) = self.content.checked_sub(cell.len()).filter(|at| *at >= pointer + 2) else {
            return false;
        };
        self.put(content, cell);
        self.put(pointer, &(content as u16).to_be_bytes());
        self.content = content;
        self.cells += 1;
        true
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn complete(mut self, kind: u8) -> Self {
        let (start, cells, content) = (self.start, self.cells as u16, self.content as u16);
        self.put(start, &[kind]);
        self.put(start + 3, &cells.to_be_bytes());
        self.put(start + 5, &content.to_be_bytes());
        self
    }

    pub fn leaf(self) -> Bytes {
        self.complete(LEAF).bytes
    }

    fn interior(self, right: u32) -> Bytes {
        let mut page = self.complete(INTERIOR);
        page.put(page.start + 8, &right.to_be_bytes());
        page.bytes
    }
}

/// A row as a cell; what does not fit into a leaf goes to pages of its own at once.
pub fn leaf_cell(pages: &mut Pages, id: i64, record: &[u8]) -> Result<Vec<u8>, SqliteError> {
    let local = if record.len() <= MAX_LOCAL {
        record.len()
    } else {
        let most = MIN_LOCAL + (record.len() - MIN_LOCAL) % OVERFLOW;
        if most <= MAX_LOCAL { most } else { MIN_LOCAL }
    };
    let (local, rest) = record.split_at_checked(local).unwrap_or((record, &[]));
    let mut cell = Vec::with_capacity(local.len() + 24);
    varint(&mut cell, record.len() as u64);
    varint(&mut cell, id as u64);
    cell.extend_from_slice(local);
    if !rest.is_empty() {
        cell.extend_from_slice(&pages.next()?.to_be_bytes());
        let mut chunks = rest.chunks(OVERFLOW).peekable();
        while let Some(chunk) = chunks.next() {
            let mut page = [0; PAGE];
            let (next, content) = page.split_at_mut(4);
            if let Some(place) = content.get_mut(..chunk.len()) {
                place.copy_from_slice(chunk);
            }
            if chunks.peek().is_some() {
                next.copy_from_slice(&after_next(pages)?.to_be_bytes());
            }
            pages.append(&page)?;
        }
    }
    Ok(cell)
}

/// The number of the page after the one that is appended next.
fn after_next(pages: &Pages) -> Result<u32, SqliteError> {
    pages.following(pages.next()?)
}

/// A page and the highest row in it or below it.
type Child = (u32, i64);

/// The leaves of a tree.
#[derive(Debug, Default)]
pub struct Leaves {
    page: Option<Page>,
    last: Option<i64>,
    written: Vec<Child>,
}

impl Leaves {
    pub fn add(&mut self, pages: &mut Pages, id: i64, record: &[u8]) -> Result<(), SqliteError> {
        if let Some(last) = self.last.filter(|last| *last >= id) {
            return Err(SqliteError::NotAscending { row: id, last });
        }
        let cell = leaf_cell(pages, id, record)?;
        let page = self.page.get_or_insert_with(|| Page::new(0, 8));
        if !page.add(&cell) {
            let mut fresh = Page::new(0, 8);
            // Four of the largest cells fit on an empty page.
            fresh.add(&cell);
            let full = std::mem::replace(page, fresh);
            self.written.push((pages.append(&full.leaf())?, self.last.unwrap_or(id)));
        }
        self.last = Some(id);
        Ok(())
    }

    /// Writes the last leaf and all that lies above; says which page is the root.
    pub fn finish(mut self, pages: &mut Pages) -> Result<u32, SqliteError> {
        let page = self.page.unwrap_or_else(|| Page::new(0, 8));
        self.written.push((pages.append(&page.leaf())?, self.last.unwrap_or(0)));
        let mut level = self.written;
        while level.len() > 1 {
            level = above(pages, &level)?;
        }
        Ok(level.first().map_or(0, |(root, _)| *root))
    }
}

/// So many children a page has at least room for: a cell is four bytes, a row of at most nine, its pointer
/// two, and there is one child more than cells.
const CHILDREN: usize = (PAGE - 12) / 15 + 1;

/// The level above some pages.
fn above(pages: &mut Pages, level: &[Child]) -> Result<Vec<Child>, SqliteError> {
    let mut parents = Vec::with_capacity(level.len() / CHILDREN + 1);
    // As even as can be: no page is left with a single child and so without a cell.
    let count = level.len().div_ceil(CHILDREN);
    let (size, larger) = (level.len() / count, level.len() % count);
    let mut rest = level;
    for at in 0..count {
        let (part, later) = rest.split_at_checked(size + usize::from(at < larger)).unwrap_or((rest, &[]));
        rest = later;
        let Some(((right, highest), others)) = part.split_last() else { continue };
        let mut page = Page::new(0, 12);
        for (child, row) in others {
            let mut cell = child.to_be_bytes().to_vec();
            varint(&mut cell, *row as u64);
            page.add(&cell);
        }
        parents.push((pages.append(&page.interior(*right))?, *highest));
    }
    Ok(parents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_of_a_level_has_a_single_child() {
        let path = std::env::temp_dir().join(format!("lazaret-tree-{}", std::process::id()));
        let mut pages = Pages::new(std::fs::File::create(&path).unwrap()).unwrap();
        for count in [2, CHILDREN, CHILDREN + 1, 2 * CHILDREN + 1, 299 * CHILDREN + 1, 300 * CHILDREN] {
            let level: Vec<Child> =
                (1..=count as u32).map(|n| (n, i64::MAX - 100_000 + i64::from(n))).collect();
            let parents = above(&mut pages, &level).unwrap();
            assert_eq!(parents.len(), count.div_ceil(CHILDREN));
            assert_eq!(parents.last().unwrap().1, level.last().unwrap().1);
            let mut before = i64::MAX - 100_000;
            for (_, highest) in parents {
                assert!(highest - before >= 2 && highest - before <= CHILDREN as i64);
                before = highest;
            }
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_page_takes_as_many_of_the_largest_cells_as_was_counted_on() {
        let mut page = Page::new(0, 12);
        assert!((0..CHILDREN - 1).all(|_| page.add(&[0xff; 13])));
        let mut page = Page::new(0, 8);
        assert!((0..4).all(|_| page.add(&[0; MIN_LOCAL + 9 + 9 + 4])));
    }

    #[test]
    fn rows_that_do_not_ascend_are_refused() {
        let path = std::env::temp_dir().join(format!("lazaret-rows-{}", std::process::id()));
        let mut pages = Pages::new(std::fs::File::create(&path).unwrap()).unwrap();
        let mut leaves = Leaves::default();
        leaves.add(&mut pages, 5, &[1, 0]).unwrap();
        for row in [5, 4] {
            let error = leaves.add(&mut pages, row, &[1, 0]).unwrap_err();
            assert!(matches!(error, SqliteError::NotAscending { last: 5, .. }), "{error}");
        }
        leaves.add(&mut pages, 6, &[1, 0]).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
