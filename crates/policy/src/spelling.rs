//! "Did you mean …": the candidate nearest to a misspelt word, for hints in errors. It decides nothing.

/// The candidate nearest to `word`, or none when nothing is near enough to be worth suggesting.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any name here: the table would only cost time.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let lowered = word.to_lowercase();
    let furthest = (lowered.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&lowered, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and substitutions that lead from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (taken, letter) in from.chars().enumerate() {
        let mut left = taken + 1;
        let mut next = vec![left];
        for ((above_left, above), other) in row.iter().zip(row.iter().skip(1)).zip(&to) {
            left = (above_left + usize::from(letter != *other)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_single_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn a_typing_error_finds_its_word_and_nonsense_finds_none() {
        let words = ["readOnlyPaths", "deniedPaths", "rootPath"];
        assert_eq!(nearest("readonlypath", words), Some("readOnlyPaths"));
        assert_eq!(nearest("denyedPaths", words), Some("deniedPaths"));
        assert_eq!(nearest("zebra", words), None);
        assert_eq!(nearest("", words), None);
    }
}
