//! Rows of named cells, out of a CSV file or of JSON lines.
//!
//! CSV is that of RFC 4180: commas, cells in double quotes where they hold commas, quotes or line
//! ends, the columns' names in the first line. Space around a cell without quotes is dropped. JSON
//! lines are one object per line; a key that a line does not have is an empty cell there.
//!
//! CSV is read by hand: the crate `csv` 1.4 takes quotes that never end and text after them for cells, trims
//! either all cells or none, and counts lines wrongly after empty ones.
//!
//! References: RFC 4180; <https://jsonlines.org>.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::error::Error;
use crate::text_file;

/// Most cells of a table, empty ones too: three million rows of forty columns.
const MAX_CELLS: usize = 1 << 27;

/// A table; there is at least one row, and columns have different names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<String>,
    /// The line that each row starts in.
    pub(crate) lines: Vec<usize>,
    /// All cells one after the other, and where each ends.
    text: String,
    ends: Vec<u32>,
}

impl Rows {
    /// Reads a table: JSON lines where the name ends in `.jsonl`, else CSV.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = text_file::read(path)?;
        let json = path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("jsonl"));
        if json {
            Self::parse_json(&text, path)
        } else {
            Self::parse_csv(&text, path)
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The number of a column.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The cell of a row and a column; panics where there is none.
    pub(crate) fn cell(&self, row: usize, column: usize) -> &str {
        let at = row * self.columns.len() + column;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[at] as usize]
    }

    fn new(columns: Vec<String>) -> Self {
        Self {
            columns,
            lines: Vec::new(),
            text: String::new(),
            ends: Vec::new(),
        }
    }

    fn push(&mut self, cell: &str) {
        self.text.push_str(cell);
        // A text has less than 2³² bytes, and so have its cells.
        self.ends.push(self.text.len() as u32);
    }

    fn checked(self, path: &Path) -> Result<Self, Error> {
        if self.lines.is_empty() {
            return Err(Error::malformed(format!(
                "`{}` has no rows",
                path.display()
            )));
        }
        Ok(self)
    }

    fn parse_csv(text: &str, path: &Path) -> Result<Self, Error> {
        let mut csv = Csv {
            left: text,
            line: 1,
        };
        let quotes = |line| {
            Error::malformed(format!(
                "`{}`, line {line}: a cell in quotes does not end as it should",
                path.display()
            ))
        };
        let mut cells = Vec::new();
        csv.record(&mut cells).map_err(quotes)?;
        check_names(&cells, path, 1)?;
        let wanted = cells.len();
        let mut rows = Self::new(cells.clone());
        while let Some(line) = csv.record(&mut cells).map_err(quotes)? {
            if cells.len() != wanted {
                return Err(Error::malformed(format!(
                    "`{}`, line {line}: {} cells, but the first line names {wanted} columns\nhint: cells that hold commas need double quotes",
                    path.display(),
                    cells.len()
                )));
            }
            if rows.ends.len() + wanted > MAX_CELLS {
                return Err(too_many_cells(path));
            }
            rows.lines.push(line);
            for cell in &cells {
                rows.push(cell);
            }
        }
        rows.checked(path)
    }

    fn parse_json(text: &str, path: &Path) -> Result<Self, Error> {
        let (mut columns, mut numbers) = (Vec::new(), HashMap::new());
        let mut objects = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            let object: Object = serde_json::from_str(text).map_err(|source| {
                Error::malformed(format!(
                    "`{}`, line {line} is not a JSON object: {source}",
                    path.display()
                ))
                .because(source)
            })?;
            let mut row: Vec<(usize, String)> = Vec::with_capacity(object.0.len());
            for (key, value) in object.0 {
                let number = *numbers.entry(key).or_insert_with_key(|key: &String| {
                    columns.push(key.clone());
                    columns.len() - 1
                });
                row.push((number, as_cell(value)));
            }
            row.sort_unstable_by_key(|&(number, _)| number);
            if let Some(pair) = row.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(twice(&columns[pair[0].0], path, line));
            }
            objects.push((line, row));
        }
        let cells = objects.len().checked_mul(columns.len());
        if cells.is_none_or(|cells| cells > MAX_CELLS) {
            return Err(too_many_cells(path));
        }
        let mut rows = Self::new(columns);
        for (line, row) in objects {
            rows.lines.push(line);
            let mut row = row.into_iter().peekable();
            for column in 0..rows.columns.len() {
                let cell = row.next_if(|&(number, _)| number == column);
                rows.push(&cell.unwrap_or_default().1);
            }
        }
        rows.checked(path)
    }
}

fn too_many_cells(path: &Path) -> Error {
    Error::too_large(format!(
        "`{}` has more than {MAX_CELLS} cells, the most for a table",
        path.display()
    ))
}

fn twice(column: &str, path: &Path, line: usize) -> Error {
    Error::malformed(format!(
        "`{}`, line {line}: column `{column}` is there twice",
        path.display()
    ))
}

fn check_names(names: &[String], path: &Path, line: usize) -> Result<(), Error> {
    let mut sorted: Vec<_> = names.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(twice(pair[0], path, line)),
    }
}

/// Text as it is, nothing for null, all else as JSON writes it.
fn as_cell(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The keys and values of a JSON object, in the order written.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Object(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// The rest of a CSV text.
struct Csv<'a> {
    left: &'a str,
    /// The line of its first character.
    line: usize,
}

impl Csv<'_> {
    /// Reads the cells of the next row that is not empty and tells its line; none at the end.
    ///
    /// Quotes that do not end are an error: the line that they start in.
    fn record(&mut self, cells: &mut Vec<String>) -> Result<Option<usize>, usize> {
        cells.clear();
        while self.eat_line_end() {}
        let line = self.line;
        if self.left.is_empty() {
            return Ok(None);
        }
        loop {
            let cell = self.cell()?;
            cells.push(cell);
            if self.eat(",") {
                continue;
            }
            if self.left.is_empty() || self.eat_line_end() {
                return Ok(Some(line));
            }
            // Only after a cell in quotes can anything else follow.
            return Err(self.line);
        }
    }

    fn cell(&mut self) -> Result<String, usize> {
        let (start, whole) = (self.line, self.left);
        self.left = self.left.trim_start_matches([' ', '\t']);
        if !self.eat("\"") {
            let end = whole.find([',', '\n', '\r']).unwrap_or(whole.len());
            self.left = &whole[end..];
            return Ok(whole[..end].trim().to_owned());
        }
        let mut cell = String::new();
        loop {
            let (text, rest) = self.left.split_once('"').ok_or(start)?;
            self.line += text.bytes().filter(|&byte| byte == b'\n').count();
            self.left = rest;
            cell.push_str(text);
            // Two quotes stand for one.
            if !self.eat("\"") {
                self.left = self.left.trim_start_matches([' ', '\t']);
                return Ok(cell);
            }
            cell.push('"');
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        let rest = self.left.strip_prefix(token);
        self.left = rest.unwrap_or(self.left);
        rest.is_some()
    }

    fn eat_line_end(&mut self) -> bool {
        let found = self.eat("\r\n") || self.eat("\n") || self.eat("\r");
        self.line += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn csv(text: &str) -> Result<Rows, Error> {
        Rows::parse_csv(text, Path::new("d/t.csv"))
    }

    fn json(text: &str) -> Result<Rows, Error> {
        Rows::parse_json(text, Path::new("d/t.jsonl"))
    }

    fn cells(rows: &Rows) -> Vec<Vec<&str>> {
        let row = |row| (0..rows.columns.len()).map(move |column| rows.cell(row, column));
        (0..rows.len()).map(|i| row(i).collect()).collect()
    }

    #[test]
    fn csv_is_read_as_the_standard_says() {
        let rows = csv("file_name, A ,\"B \"\"b\"\"\"\r\n\
                        a.png,1,\"x, y\"\r\n\
                        \r\n\
                        \"two\nlines\" , ,\n\
                        ü.png,,last")
        .unwrap();
        assert_eq!(rows.columns, ["file_name", "A", "B \"b\""]);
        assert_eq!(
            cells(&rows),
            [
                vec!["a.png", "1", "x, y"],
                vec!["two\nlines", "", ""],
                vec!["ü.png", "", "last"],
            ]
        );
        assert_eq!(rows.lines, [2, 4, 6]);
        assert_eq!((rows.column("A"), rows.column("a")), (Some(1), None));
    }

    #[test]
    fn json_lines_are_read_with_keys_in_the_order_written() {
        let rows = json(
            "{\"z\": 1, \"file_name\": \"a.png\"}\n\n\
             {\"file_name\": \"b\\n.png\", \"new\": true, \"z\": null, \"o\": [1.5, {}]}\n\
             {\"new\": -1}",
        )
        .unwrap();
        assert_eq!(rows.columns, ["z", "file_name", "new", "o"]);
        assert_eq!(
            cells(&rows),
            [
                vec!["1", "a.png", "", ""],
                vec!["", "b\n.png", "true", "[1.5,{}]"],
                vec!["", "", "-1", ""],
            ]
        );
        assert_eq!(rows.lines, [1, 3, 4]);
    }

    #[test]
    fn damaged_tables_are_refused_with_the_line() {
        let message = |text| csv(text).unwrap_err().to_string();
        assert_eq!(message(""), "`d/t.csv` has no rows");
        assert_eq!(message("a,b\n"), "`d/t.csv` has no rows");
        assert_eq!(
            message("a,b,a\n1,2,3\n"),
            "`d/t.csv`, line 1: column `a` is there twice"
        );
        assert_eq!(
            message("a,b\n1,2\n\"x\ny\",2\n1,2,3\n"),
            "`d/t.csv`, line 5: 3 cells, but the first line names 2 columns\n\
             hint: cells that hold commas need double quotes"
        );
        assert_eq!(
            message("a,b\n1,\"2\n3,4\n"),
            "`d/t.csv`, line 2: a cell in quotes does not end as it should"
        );
        assert_eq!(
            message("a,b\n\"1\"x,2\n"),
            "`d/t.csv`, line 2: a cell in quotes does not end as it should"
        );
        let message = |text| json(text).unwrap_err().to_string();
        assert_eq!(message("\n"), "`d/t.jsonl` has no rows");
        assert_eq!(
            message("{\"a\": 1}\n[1]\n"),
            "`d/t.jsonl`, line 2 is not a JSON object: invalid type: sequence, \
             expected an object at line 1 column 0"
        );
        assert!(message("{\"a\": 1").starts_with("`d/t.jsonl`, line 1 is not a JSON object: EOF"));
        assert_eq!(
            message("{\"a\": 1, \"a\": 2}"),
            "`d/t.jsonl`, line 1: column `a` is there twice"
        );
    }

    /// Every line with a key of its own would make a table of the square of their number.
    #[test]
    fn a_small_file_cannot_become_a_large_table() {
        let lines: Vec<_> = (0..20_000).map(|i| format!("{{\"{i}\":1}}")).collect();
        assert_eq!(
            json(&lines.join("\n")).unwrap_err().to_string(),
            "`d/t.jsonl` has more than 134217728 cells, the most for a table"
        );
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = format!("{{\"a\": {}}}", "[".repeat(100_000));
        assert!(json(&deep).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[a\",\r\n \\\\{}\\[\\]:1é]{0,60}") {
            let _ = (csv(&text), json(&text));
        }

        #[test]
        fn what_is_written_is_read(
            table in prop::collection::vec(prop::collection::vec("[a\",\r\n é]{0,5}", 3), 1..5)
        ) {
            let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",");
            let lines: Vec<_> = table.iter().map(line).collect();
            let rows = csv(&format!("x,y,z\n{}\n", lines.join("\n"))).unwrap();
            prop_assert_eq!(cells(&rows), table.clone());
            let object = |row: &Vec<String>| {
                let [x, y, z] = [0, 1, 2].map(|i| Value::from(row[i].as_str()));
                format!("{{\"x\":{x},\"y\":{y},\"z\":{z}}}")
            };
            let objects: Vec<_> = table.iter().map(object).collect();
            let rows = json(&objects.join("\n")).unwrap();
            prop_assert_eq!(cells(&rows), table);
        }
    }
}
