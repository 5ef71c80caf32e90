//! One HTML page that needs no other file: its style and its pictures are inside.

use std::borrow::Cow;

/// The style of the page; that of its pictures follows it.
const STYLE: &str = concat!(include_str!("page.css"), include_str!("chart.css"));

/// A whole page around `body`.
///
/// ```
/// let page = forebay_chart::document("A & B", "<p>text</p>\n");
/// assert!(page.contains("<title>A &amp; B</title>"));
/// ```
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         </body>\n</html>\n",
        escape(title)
    )
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dark_and_light_both_have_every_colour() {
        let defined = |name: &str| STYLE.matches(&format!("{name}:")).count();
        for number in 0..8 {
            assert_eq!(defined(&format!("--c{number}")), 2, "colour {number}");
        }
        assert!(STYLE.contains("prefers-color-scheme: dark"));
    }
}
