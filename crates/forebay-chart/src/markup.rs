//! Text inside of markup.

use std::borrow::Cow;

/// `text` with the characters of markup replaced.
///
/// ```
/// assert_eq!(forebay_chart::escape("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"']) {
        return Cow::Borrowed(text);
    }
    let replaced = text.chars().fold(String::new(), |mut all, letter| {
        match letter {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            other => all.push(other),
        }
        all
    });
    Cow::Owned(replaced)
}
