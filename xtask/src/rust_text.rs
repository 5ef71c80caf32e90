//! A Rust file as tidy sees it: code and comments separated, and the lines that are tests.
//!
//! This is a scanner and not a parser. It knows comments, strings and characters well enough to
//! match braces and find words in the rest.

/// A Rust file with its code and its comments separated.
///
/// Both texts have the length and the line ends of the file; the other characters are blank.
/// Neither text has the contents of string and character literals.
pub(crate) struct RustText {
    /// The code alone.
    pub(crate) code: String,
    /// The comments alone.
    pub(crate) comments: String,
    /// The quoted strings, each with the byte at which it starts, as they are written.
    pub(crate) strings: Vec<(usize, String)>,
    test_lines: Vec<bool>,
}

impl RustText {
    /// Scans the file at `path` with the content `text`.
    pub(crate) fn new(path: &str, text: &str) -> RustText {
        let (code, comments, strings) = Scanner::new(text).split();
        let test_lines = find_test_lines(path, &code);
        let content = |(start, end): (usize, usize)| (start, text[start + 1..end - 1].to_owned());
        RustText {
            code,
            comments,
            strings: strings.into_iter().map(content).collect(),
            test_lines,
        }
    }

    /// Whether line `line`, counted from 1, is part of a test.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }
}

/// The words of `text` with the line of each, counted from 1. A word is anything that may be a
/// name.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .map(move |word| (index + 1, word))
    })
}

/// The line of byte `offset` of `text`, counted from 1.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// The position at which the bracket that opens at byte `start` of `code` is closed.
pub(crate) fn closing(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// The end of the item that starts at byte `start` of `code`: its `;` or its closing brace. The
/// second value is its body, if it has one.
pub(crate) fn item_end(code: &str, start: usize) -> Option<(usize, Option<usize>)> {
    let mut index = start;
    while index < code.len() {
        match code.as_bytes()[index] {
            b';' => return Some((index, None)),
            b'{' => return Some((closing(code, index)?, Some(index))),
            b'(' | b'[' => index = closing(code, index)?,
            _ => {}
        }
        index += 1;
    }
    None
}

fn find_test_lines(path: &str, code: &str) -> Vec<bool> {
    let count = code.lines().count();
    if path.contains("/tests/") || path.ends_with("_tests.rs") || path.contains("/benches/") {
        return vec![true; count];
    }
    let mut lines = vec![false; count];
    for (start, _) in code.match_indices("#[cfg(") {
        let Some(end) = closing(code, start + 1) else {
            continue;
        };
        let predicate = &code[start..end];
        let is_test = words(predicate).any(|(_, word)| word == "test");
        if !is_test || predicate.contains("not(test)") {
            continue;
        }
        let Some((last, _)) = item_end(code, end + 1) else {
            continue;
        };
        lines[line_at(code, start) - 1..line_at(code, last)].fill(true);
    }
    lines
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

/// What a stretch of the file is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Scanner<'a> {
        Scanner {
            text: text.as_bytes(),
            at: 0,
            code: Vec::with_capacity(text.len()),
            comments: Vec::with_capacity(text.len()),
        }
    }

    /// The code, the comments, and where the quoted strings start and end.
    fn split(mut self) -> (String, String, Vec<(usize, usize)>) {
        let mut strings = Vec::new();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with(b"//") {
                let length = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                self.take(length, Kind::Comment);
            } else if rest.starts_with(b"/*") {
                self.take(block_comment_length(rest), Kind::Comment);
            } else if let Some(length) = self.literal_length() {
                if rest[0] == b'"' && length >= 2 {
                    strings.push((self.at, self.at + length));
                }
                self.take(length, Kind::Literal);
            } else {
                self.take(1, Kind::Code);
            }
        }
        let ascii = |bytes| String::from_utf8(bytes).expect("what is kept was made ASCII");
        (ascii(self.code), ascii(self.comments), strings)
    }

    fn take(&mut self, length: usize, kind: Kind) {
        for byte in &self.text[self.at..self.at + length] {
            let (code, comment) = match (*byte, kind) {
                (b'\n', _) => (b'\n', b'\n'),
                (_, Kind::Literal) => (b' ', b' '),
                (byte, _) if !byte.is_ascii() => (b' ', b' '),
                (byte, Kind::Code) => (byte, b' '),
                (byte, Kind::Comment) => (b' ', byte),
            };
            self.code.push(code);
            self.comments.push(comment);
        }
        self.at += length;
    }

    /// The length of the string or character that starts here, if one does.
    fn literal_length(&self) -> Option<usize> {
        let rest = &self.text[self.at..];
        match rest[0] {
            b'"' => Some(quoted_length(rest, b'"')),
            b'\'' => character_length(rest),
            b'r' if !self.is_inside_word() => raw_string_length(rest),
            _ => None,
        }
    }

    /// Whether the byte here continues a word, the prefixes of byte and C strings aside.
    fn is_inside_word(&self) -> bool {
        let is_word = |back: usize| {
            let at = self.at.checked_sub(back);
            at.is_some_and(|at| self.text[at].is_ascii_alphanumeric() || self.text[at] == b'_')
        };
        let prefixed = self.at > 0 && matches!(self.text[self.at - 1], b'b' | b'c');
        if prefixed { is_word(2) } else { is_word(1) }
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut index = 0;
    while index < rest.len() {
        if rest[index..].starts_with(b"/*") {
            depth += 1;
            index += 2;
        } else if rest[index..].starts_with(b"*/") {
            depth -= 1;
            index += 2;
            if depth == 0 {
                return index;
            }
        } else {
            index += 1;
        }
    }
    rest.len()
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut index = 1;
    while index < rest.len() {
        match rest[index] {
            b'\\' => index += 2,
            byte if byte == quote => return index + 1,
            _ => index += 1,
        }
    }
    rest.len()
}

/// The length of a character literal; a lifetime is none.
fn character_length(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    if first == b'\\' {
        return Some(quoted_length(rest, b'\''));
    }
    let width = match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let body = hashes + 2;
    let end = [vec![b'"'], vec![b'#'; hashes]].concat();
    let length = rest[body..]
        .windows(end.len())
        .position(|window| window == end)
        .map_or(rest.len(), |found| body + found + end.len());
    Some(length)
}

#[cfg(test)]
#[path = "rust_text_tests.rs"]
mod tests;
