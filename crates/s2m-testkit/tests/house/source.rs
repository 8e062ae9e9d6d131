//! Rust sources as rules see them: code without comments, strings and tests.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The code of a file. A string in it is its number among `strings`, in quotes.
pub(crate) struct Source {
    pub(crate) code: String,
    strings: Vec<String>,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Self {
        Self::of(&fs::read_to_string(path).unwrap())
    }

    pub(crate) fn of(text: &str) -> Self {
        let (code, strings) = without_comments(text);
        Self {
            code: without_tests(&code),
            strings,
        }
    }

    /// Strings outside tests.
    pub(crate) fn strings(&self) -> impl Iterator<Item = &str> {
        let numbers = self.code.split('"').skip(1).step_by(2);
        numbers.map(|number| self.strings[number.parse::<usize>().unwrap()].as_str())
    }

    /// Names of a type's variants; none where it is not defined here.
    pub(crate) fn variants(&self, name: &str) -> Option<Vec<String>> {
        let at = self.code.find(&format!("enum {name} {{"))?;
        let body = &self.code[at + self.code[at..].find('{')? + 1..];
        let mut names = Vec::new();
        for part in top_level(&body[..closing(body)?], ',') {
            // Attributes stand before the name.
            let name = part.rsplit(']').find_map(word).or_else(|| word(part));
            names.extend(name.map(str::to_owned));
        }
        Some(names)
    }

    /// The patterns of every `match`.
    pub(crate) fn matches(&self) -> Vec<Vec<&str>> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("match ") {
            let before = self.code[..at].chars().next_back();
            if before.is_some_and(is_word) {
                continue;
            }
            let Some(open) = top_level(&self.code[at..], '{').next().map(str::len) else {
                continue;
            };
            let body = &self.code[at + open + 1..];
            found.extend(closing(body).map(|end| patterns(&body[..end])));
        }
        found
    }

    /// Everything between square brackets, without attributes.
    pub(crate) fn lists(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices('[') {
            let attribute = self.code[..at].ends_with(['#', '!']);
            let body = &self.code[at + 1..];
            found.extend(closing(body).filter(|_| !attribute).map(|end| &body[..end]));
        }
        found
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word that a text begins with, after blanks.
pub(crate) fn word(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    Some(&text[..end]).filter(|word| !word.is_empty())
}

/// Where what is open at the beginning of a text is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return Some(at),
            ')' | ']' | '}' => depth -= 1,
            _ => (),
        }
    }
    None
}

/// A text in pieces, cut at a character that stands in no brackets.
fn top_level(text: &str, cut: char) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        let here = depth == 0 && c == cut;
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => (),
        }
        here
    })
}

/// The patterns of a `match`, out of what is between its braces.
fn patterns(mut body: &str) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some(arrow) = arrow(body) {
        found.push(body[..arrow].trim());
        let rest = body[arrow + 2..].trim_start();
        let end = if let Some(block) = rest.strip_prefix('{') {
            closing(block).map_or(rest.len(), |end| end + 2)
        } else {
            top_level(rest, ',').next().map_or(0, str::len)
        };
        body = rest[end..].trim_start().trim_start_matches(',');
    }
    found
}

/// The first arrow that stands in no brackets.
fn arrow(text: &str) -> Option<usize> {
    let all = text.match_indices("=>").map(|(at, _)| at);
    let mut outside = all.filter(|&at| {
        let count = |open: [char; 3]| text[..at].matches(open).count();
        count(['(', '[', '{']) == count([')', ']', '}'])
    });
    outside.next()
}

/// Code with strings taken out, and these.
fn without_comments(text: &str) -> (String, Vec<String>) {
    let (mut code, mut strings) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let raw = rest.strip_prefix('r').filter(|after| {
            after.trim_start_matches('#').starts_with('"') && !code.ends_with(is_word)
        });
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(after) = raw {
            let marks = &after[..after.find('"').unwrap()];
            let body = &after[marks.len() + 1..];
            let end = body.find(&format!("\"{marks}")).unwrap();
            let _ = write!(code, "\"{}\"", strings.len());
            strings.push(body[..end].to_owned());
            rest = &body[end + 1 + marks.len()..];
        } else if let Some(body) = rest.strip_prefix('"') {
            let end = end_of_string(body);
            let _ = write!(code, "\"{}\"", strings.len());
            strings.push(body[..end].to_owned());
            rest = &body[end + 1..];
        } else if let Some(length) = character(rest) {
            rest = &rest[length..];
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    (code, strings)
}

/// Where a string ends that began before.
fn end_of_string(body: &str) -> usize {
    let mut escaped = false;
    let mut quote = body.char_indices().filter(|&(_, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    quote.next().unwrap().0
}

/// Length of the character that a text begins with, in its quotes; none for a lifetime.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let first = body.chars().next()?;
    if first == '\\' {
        return Some(1 + 2 + body[2..].find('\'')? + 1);
    }
    let after = &body[first.len_utf8()..];
    after.starts_with('\'').then_some(first.len_utf8() + 2)
}

/// Code without what is compiled for tests alone.
fn without_tests(code: &str) -> String {
    let mut parts = code.split("#[cfg(test)]");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let block = part.find('{').unwrap_or(part.len());
        let end = match part.find(';') {
            Some(end) if end < block => end + 1,
            _ => {
                let body = part.get(block + 1..).unwrap_or_default();
                closing(body).map_or(part.len(), |end| block + end + 2)
            }
        };
        kept.push_str(&part[end..]);
    }
    kept
}

#[test]
fn sources_are_read_as_code() {
    let source = Source::of(
        r##"
        // match in { a comment
        enum Kind { #[serde(rename = "b, {")] Big, Small { n: [u8; 2] }, }
        fn f<'a>(k: &'a Kind) -> char {
            match (k, '{') { (Kind::Big, _) => { "a \" {"; 'x' } (Kind::Small { n }, _) if n => g(1, 2), _ => '\'' }
        }
        const ALL: &[Kind] = &[Kind::Big];
        #[cfg(test)]
        mod tests { fn g() { match k { X => (), } } const T: &str = r#"in "a" test"#; }
        struct After;
        #[cfg(test)]
        mod other;
        "##,
    );
    assert_eq!(source.variants("Kind").unwrap(), ["Big", "Small"]);
    assert_eq!(source.variants("Sort"), None);
    let patterns = ["(Kind::Big, _)", "(Kind::Small { n }, _) if n", "_"];
    assert_eq!(source.matches(), [patterns]);
    assert!(source.lists().contains(&"Kind::Big"));
    let strings: Vec<&str> = source.strings().collect();
    assert_eq!(strings, ["b, {", "a \\\" {"]);
    assert!(source.code.contains("struct After;") && !source.code.contains("other"));
}
