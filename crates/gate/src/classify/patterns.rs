//! Patterns of file names: which directories do they begin in, and how far up do they lead? Every dialect counts that
//! programs have: `{a,b}` is replaced where one knows it and a name where one does not.

use super::resolve::PathFault;

const MOST_EXPANDED: usize = 64;
const DEEPEST: usize = 16;

/// Where a pattern looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beginning {
    /// What comes before the first name with a wildcard. May be empty.
    pub directory: String,
    /// How many directories above that it can get.
    pub ups: usize,
    /// The first name with a wildcard, when more follows: what it matches may be a link.
    pub through: Option<String>,
}

/// May a name with wildcards match this one? Rather too often: only what stands before the first and behind the last
/// special character is compared.
pub(super) fn may_match(pattern: &str, name: &str) -> bool {
    let special = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '));
    let before = pattern.split(special).next().unwrap_or_default();
    let behind = pattern.rsplit(special).next().unwrap_or_default();
    name.starts_with(before) && name.ends_with(behind)
}

/// All places that a pattern may begin in.
pub(super) fn beginnings(text: &str) -> Result<Vec<Beginning>, PathFault> {
    let mut found: Vec<Beginning> = Vec::new();
    let mut add = |pattern: &str, wildcards: &[char]| {
        let beginning = beginning(pattern, wildcards);
        if !found.contains(&beginning) {
            found.push(beginning);
        }
    };
    let plain: String = text.chars().filter(|c| *c != '\\').collect();
    for text in [text, plain.as_str()] {
        refuse_groups(text)?;
        add(text, &['*', '?', '[']);
        for pattern in expanded(text)? {
            let pattern = pattern.trim_start_matches('!');
            refuse_groups(pattern)?;
            add(pattern, &['*', '?', '[', '{', '(']);
        }
    }
    Ok(found)
}

/// Does the text have what only patterns have, beyond `*` and `?`, which are looked for as names?
pub(super) fn has_groups(text: &str) -> bool {
    text.contains('{') || ["@(", "!(", "+(", "?(", "*("].iter().any(|start| text.contains(start))
}

/// What `@(a|../b)` matches depends on the program.
fn refuse_groups(text: &str) -> Result<(), PathFault> {
    // How many parentheses are open, from the outermost of such a group on.
    let (mut open, mut before) = (0_usize, ' ');
    for character in text.chars() {
        match character {
            '(' if open > 0 || matches!(before, '@' | '!' | '+' | '?' | '*') => open += 1,
            ')' => open = open.saturating_sub(1),
            '/' if open > 0 => return Err(PathFault::Pattern),
            '.' if open > 0 && before == '.' => return Err(PathFault::Pattern),
            _ => {}
        }
        before = character;
    }
    Ok(())
}

/// Every text that `{a,b}` stands for.
fn expanded(text: &str) -> Result<Vec<String>, PathFault> {
    let mut done = Vec::new();
    let mut ahead = vec![(text.to_owned(), 0_usize)];
    while let Some((text, depth)) = ahead.pop() {
        let Some(group) = Braces::first(&text) else {
            done.push(text);
            continue;
        };
        if done.len() + ahead.len() + group.parts.len() > MOST_EXPANDED || depth >= DEEPEST {
            // Names without a way in or out of them are as good as a wildcard.
            if text.contains('/') || text.contains("..") {
                return Err(PathFault::Pattern);
            }
            done.push(text);
            continue;
        }
        for part in &group.parts {
            ahead.push((format!("{}{part}{}", group.before, group.after), depth + 1));
        }
    }
    Ok(done)
}

struct Braces<'t> {
    before: &'t str,
    parts: Vec<&'t str>,
    after: &'t str,
}

impl<'t> Braces<'t> {
    /// The first braces that close.
    fn first(text: &'t str) -> Option<Self> {
        let mut open = Vec::new();
        let mut first: Option<usize> = None;
        for (at, character) in text.char_indices() {
            match character {
                '{' => open.push(at),
                '}' => {
                    first = open.pop().map(|start| first.map_or(start, |known| known.min(start))).or(first)
                }
                _ => {}
            }
        }
        let start = first?;
        let (parts, after) = parts(text.get(start + 1..)?)?;
        Some(Braces { before: text.get(..start)?, parts, after })
    }
}

/// The parts of what stands behind an opening brace, and what follows the closing one.
fn parts(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parts, mut open, mut from) = (Vec::new(), 0_usize, 0_usize);
    for (at, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' if open > 0 => open -= 1,
            '}' => {
                parts.push(text.get(from..at)?);
                return Some((parts, text.get(at + 1..)?));
            }
            ',' if open == 0 => {
                parts.push(text.get(from..at)?);
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// `/etc/*.conf` is about `/etc`.
fn beginning(text: &str, wildcards: &[char]) -> Beginning {
    let plain: Vec<&str> = text.split('/').take_while(|name| !name.contains(wildcards)).collect();
    let mut directory = plain.join("/");
    if directory.is_empty() && text.starts_with('/') {
        directory.push('/');
    }
    // Behind a wildcard `..` leads to the parents of whatever matched.
    let (mut depth, mut lowest) = (0_i32, 0_i32);
    for name in text.split('/').skip(plain.len()) {
        depth += match name {
            ".." => -1,
            // Also stands for no directory at all.
            "" | "." | "**" => 0,
            _ => 1,
        };
        lowest = lowest.min(depth);
    }
    let mut names = text.split('/').skip(plain.len());
    let through = names.next().filter(|name| *name != "**" && names.any(|rest| !rest.is_empty()));
    Beginning { directory, ups: lowest.unsigned_abs() as usize, through: through.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(text: &str) -> Vec<String> {
        let found = beginnings(text).expect("can be told");
        found.into_iter().map(|it| format!("{}{}", it.directory, "^".repeat(it.ups))).collect()
    }

    #[test]
    fn a_pattern_begins_before_its_first_wildcard() {
        assert_eq!(directories("/etc/**/*.conf"), ["/etc"]);
        assert_eq!(directories("link/*"), ["link"]);
        assert_eq!(directories("**/*.rs"), [""]);
        assert_eq!(directories("*/../../x"), ["^"]);
        assert!(directories("li\\nk/*").contains(&"link".to_owned()));
    }

    #[test]
    fn braces_are_replaced_by_each_of_their_parts() {
        let found = directories("{..,x}/{..,y}/etc/*");
        for directory in ["../../etc", "../y/etc", "x/../etc", "x/y/etc"] {
            assert!(found.contains(&directory.to_owned()), "{directory}: {found:?}");
        }
        let found = directories("{a{/etc,b},{/root}}/*");
        for directory in ["a/etc", "ab", "/root"] {
            assert!(found.contains(&directory.to_owned()), "{directory}: {found:?}");
        }
        // Who knows no braces takes them for a name.
        assert!(directories("{link,x}/*").contains(&"{link,x}".to_owned()));
    }

    #[test]
    fn too_many_parts_are_refused_where_they_could_lead_on() {
        assert_eq!(beginnings(&"{a,b}/".repeat(12)), Err(PathFault::Pattern));
        assert_eq!(beginnings(&format!("{}..", "{a,b}".repeat(12))), Err(PathFault::Pattern));
        assert!(beginnings(&"{a,b}".repeat(12)).is_ok());
        assert!(beginnings(&"{".repeat(4000)).is_ok());
    }

    #[test]
    fn groups_that_lead_on_are_refused() {
        for text in ["@(/etc)/*", "+(..)/x", "a/!(x|y/z)", "?(../)x", "*(a|(b/c))", "@(/etc"] {
            assert_eq!(beginnings(text), Err(PathFault::Pattern), "{text}");
        }
        for text in ["@(a|b)/*.rs", "(a/b)", "fn main() {", "\\s*(import|from) \"../x\""] {
            assert!(beginnings(text).is_ok(), "{text}");
        }
    }
}
