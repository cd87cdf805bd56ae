//! Characters that a person does not see as what they are. Whoever writes the arguments of a call can use them to
//! show one thing and mean another.

/// Control characters, characters without a mark of their own, spaces that are not the space, and those that
/// change how others are laid out.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// Text in a few words: nothing hidden, and no more than so many characters.
pub fn plain(text: &str, most: usize) -> String {
    let spaced = text.chars().map(|c| if matches!(c, '\n' | '\t' | '\r') { ' ' } else { c });
    spaced.filter(|c| !is_hidden(*c)).take(most).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fools_the_eye_is_hidden_and_letters_are_not() {
        for c in
            ['\u{1b}', '\u{9b}', '\u{7f}', '\n', '\u{a0}', '\u{202e}', '\u{200b}', '\u{3000}', '\u{e0041}']
        {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in ['a', ' ', '/', 'é', 'ж', '漢', '🦀'] {
            assert!(!is_hidden(c), "{c:?}");
        }
    }

    #[test]
    fn plain_text_is_short_and_shows_everything_it_has() {
        assert_eq!(plain("a\u{1b}[31m\nb\u{202e}c", 200), "a[31m bc");
        assert_eq!(plain(&"x".repeat(300), 200).len(), 200);
    }
}
