//! A folder of pictures with a table of their labels: CSV, or JSON lines.
//!
//! ```text
//! file_name,split,cat,dog          file_name,label
//! a.png,train,1,0                  a.png,cat
//! b.png,test,,1                    b.png,dog
//! ```
//!
//! ```toml
//! source = { format = "table", folder = "pets", labels = ["cat", "dog"], size = [64, 64] }
//! ```
//!
//! The table is `metadata.csv` or `metadata.jsonl` in the folder, or one in each of its folders
//! `train`, `test` and `valid`, as Hugging Face lays them out. In a column of a label, 1 and true
//! mean that it holds; 0, −1, false and an empty cell that it is not known to. In an
//! [`audit`](crate::audit) 0, −1 and false mean that it does not hold, and an empty cell is an error.
//! A label column holds one name. A column `split` says what a row is for: train, valid or test.
//!
//! Every name stays in its folder, links included, and is there once. Pictures that lie beside
//! those of the table without a row count as items without a label.
//!
//! Reference: <https://huggingface.co/docs/datasets/image_dataset#imagefolder>.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::asked::not_known;
use crate::channels::Channels;
use crate::dataset::Dataset;
use crate::error::{AtPath as _, Error};
use crate::file_name;
use crate::labelled::{Aim, Item, Labelled, Parts, Portion, Sorting, Unlabelled};
use crate::message::quoted;
use crate::picture_at::PictureAt;
use crate::picture_folder::list;
use crate::picture_set::Wanted;
use crate::rows::Rows;

/// The tables that are found by themselves.
const FOUND: [&str; 2] = ["metadata.csv", "metadata.jsonl"];

/// The column of the pictures' names.
const FILE_NAME: &str = "file_name";

/// The column of one name that is taken without being asked for, where no column holds 1 and 0 alone.
const LABEL: &str = "label";

/// The column that says what a row is for.
const SPLIT: &str = "split";

/// A folder of pictures with a table of their labels.
#[expect(
    clippy::struct_field_names,
    reason = "fields are the keys of a run file"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Table {
    /// The folder of the pictures; relative to where the program runs.
    pub folder: PathBuf,
    /// The table, relative to the folder; found by itself where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<PathBuf>,
    /// The column that names the one label of each row; `label` where left out, if no column holds 1
    /// and 0 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The columns of labels; all that hold 1 and 0 alone where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// The column that says what a row is for; `split` where left out, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Height and width of all pictures; needed where they differ in size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[NonZeroU32; 2]>,
    /// 1 for grey, 3 for colour; by the pictures where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Share of the test part, where the table names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<f64>,
    /// What to do about pictures without a label or a row.
    #[serde(default)]
    pub unlabelled: Unlabelled,
}

/// A table with the folder that its names are relative to.
struct Listed {
    rows: Rows,
    path: PathBuf,
    folder: PathBuf,
    /// What all its rows are for, where it lies in a folder that says so.
    portion: Option<Portion>,
}

impl Table {
    /// The folder of the pictures, with all else by what it holds.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            table: None,
            label: None,
            labels: None,
            split: None,
            size: None,
            channels: None,
            test: None,
            unlabelled: Unlabelled::default(),
        }
    }

    /// Reads the table and all pictures.
    pub(crate) fn read(&self, seed: u64) -> Result<Parts, Error> {
        self.parts(Aim::Training, seed)
    }

    /// Reads all rows that are not for testing, with the columns of these labels.
    pub(crate) fn audit(&self, labels: &Labels, seed: u64) -> Result<Dataset, Error> {
        if let Some(column) = &self.label {
            let what = format!("column `{column}` tells one label of each image");
            return Err(not_known(&what));
        }
        let asked = Self {
            labels: Some(labels.names().map(str::to_owned).collect()),
            ..self.clone()
        };
        Ok(asked.parts(Aim::Audit(labels), seed)?.train)
    }

    fn parts(&self, aim: Aim<'_>, seed: u64) -> Result<Parts, Error> {
        let sorting = Sorting::new(aim, self.unlabelled, self.test, seed);
        let wanted = Wanted::new(self.size, self.channels);
        let parts = self.list(aim)?.pictures(sorting, wanted);
        parts.at(&self.folder)
    }

    /// All pictures with their labels, none of them read.
    fn list(&self, aim: Aim<'_>) -> Result<Labelled<PictureAt>, Error> {
        let tables = self.tables()?;
        let kind = self.kind(&tables[0])?;
        let labels = kind.labels(&tables)?;
        let mut items = Vec::new();
        for table in &tables {
            items.extend(self.items(table, &kind, &labels, aim)?);
        }
        Ok(Labelled {
            labels,
            items,
            notes: Vec::new(),
        })
    }

    /// The table, or the tables of the parts.
    fn tables(&self) -> Result<Vec<Listed>, Error> {
        let folder = &self.folder;
        if let Some(table) = &self.table {
            return Ok(vec![Listed::open(folder.join(table), folder, None)?]);
        }
        let find = |folder: &Path| {
            let mut paths = FOUND.iter().map(|name| folder.join(name));
            paths.find(|path| path.is_file())
        };
        if let Some(path) = find(folder) {
            return Ok(vec![Listed::open(path, folder, None)?]);
        }
        let mut tables = Vec::new();
        for name in ["train", "valid", "validation", "val", "test"] {
            let part = folder.join(name);
            if let Some(path) = find(&part) {
                tables.push(Listed::open(path, &part, Portion::named(name))?);
            }
        }
        if tables.is_empty() {
            return Err(Error::not_found(format!(
                "`{}` has no table; looked for {}\nhint: name it with `table = \"…\"`",
                folder.display(),
                quoted(FOUND)
            )));
        }
        Ok(tables)
    }

    /// How labels are written.
    fn kind(&self, table: &Listed) -> Result<Kind, Error> {
        match (&self.label, &self.labels) {
            (Some(_), Some(_)) => Err(Error::setting(
                "both `label` and `labels` are given\nhint: `label` is one column of names, `labels` are columns of 1 and 0; keep one",
            )),
            (Some(column), None) => Ok(Kind::Name(column.clone())),
            (None, Some(columns)) => Ok(Kind::Columns(columns.clone())),
            (None, None) => {
                let columns = table.truth_columns();
                if !columns.is_empty() {
                    return Ok(Kind::Columns(columns));
                }
                let found = &table.rows.columns;
                if found.iter().any(|column| column == LABEL) {
                    return Ok(Kind::Name(LABEL.to_owned()));
                }
                Err(Error::mismatch(format!(
                    "`{}` has no column of 1 and 0 alone and none called `label`; its columns are {}\nhint: say which column holds the names of labels, for example `label = \"{}\"`",
                    table.path.display(),
                    quoted(found),
                    found.last().map_or("label", String::as_str)
                )))
            }
        }
    }

    /// The items of one table, then the pictures beside them that have no row, except in an audit.
    fn items(
        &self,
        table: &Listed,
        kind: &Kind,
        labels: &Labels,
        aim: Aim<'_>,
    ) -> Result<Vec<Item<PictureAt>>, Error> {
        let paths = table.paths()?;
        let portions = table.portions(self.split.as_deref())?;
        let sets = kind.sets(table, labels)?;
        let row = |((path, set), portion)| Item::new(PictureAt::File(path), set, portion);
        if matches!(aim, Aim::Audit(_)) {
            table.check_filled_in(labels, &portions)?;
            return Ok(paths.into_iter().zip(sets).zip(portions).map(row).collect());
        }
        let mut folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        folders.insert(&table.folder);
        let known: BTreeSet<&PathBuf> = paths.iter().collect();
        let mut without_row = Vec::new();
        for folder in folders {
            let pictures = list(folder)?.into_iter();
            without_row.extend(pictures.filter(|path| !known.contains(path)));
        }
        let portion = table.portion.unwrap_or(Portion::Train);
        let item = |path| Item::new(PictureAt::File(path), LabelSet::EMPTY, portion);
        let without_row: Vec<_> = without_row.into_iter().map(item).collect();
        let rows = paths.into_iter().zip(sets).zip(portions).map(row);
        Ok(rows.chain(without_row).collect())
    }
}

/// How labels are written.
enum Kind {
    /// One column of names.
    Name(String),
    /// A column of yes and no for each label.
    Columns(Vec<String>),
}

impl Kind {
    fn labels(&self, tables: &[Listed]) -> Result<Labels, Error> {
        let failed = |error| {
            Error::from(error).within(format_args!("the labels of `{}`", tables[0].path.display()))
        };
        let column = match self {
            Self::Columns(columns) => return Labels::new(columns).map_err(failed),
            Self::Name(column) => column,
        };
        let mut names = BTreeSet::new();
        for table in tables {
            let column = table.column(column)?;
            let cells = (0..table.rows.len()).map(|row| table.rows.cell(row, column));
            names.extend(cells.filter(|cell| !cell.is_empty()));
        }
        Labels::new(names).map_err(failed)
    }

    /// The label set of every row.
    fn sets(&self, table: &Listed, labels: &Labels) -> Result<Vec<LabelSet>, Error> {
        match self {
            Self::Name(column) => {
                let column = table.column(column)?;
                let numbers: HashMap<_, _> = labels.names().zip(0..).collect();
                let set = |row| numbers.get(table.rows.cell(row, column)).copied();
                Ok((0..table.rows.len())
                    .map(|row| set(row).into_iter().collect())
                    .collect())
            }
            Self::Columns(columns) => {
                let mut sets = vec![LabelSet::EMPTY; table.rows.len()];
                for (label, name) in columns.iter().enumerate() {
                    let column = table.column(name)?;
                    for (row, set) in sets.iter_mut().enumerate() {
                        if table.truth(row, column)? {
                            *set = set.with(label);
                        }
                    }
                }
                Ok(sets)
            }
        }
    }
}

impl Listed {
    fn open(path: PathBuf, folder: &Path, portion: Option<Portion>) -> Result<Self, Error> {
        Ok(Self {
            rows: Rows::read(&path)?,
            path,
            folder: folder.to_owned(),
            portion,
        })
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        let column = self.rows.column(name);
        column.ok_or_else(|| {
            Error::not_found(format!(
                "`{}` has no column `{name}`; its columns are {}\nhint: columns are separated by commas",
                self.path.display(),
                quoted(&self.rows.columns)
            ))
        })
    }

    /// Columns that hold nothing but yes, no and empty cells, and not only empty ones.
    fn truth_columns(&self) -> Vec<String> {
        let columns = self.rows.columns.iter().enumerate();
        let holds_truth = |column| {
            let mut cells = (0..self.rows.len()).map(|row| self.rows.cell(row, column));
            cells.clone().all(|cell| truth(cell).is_some()) && cells.any(|cell| !cell.is_empty())
        };
        columns
            .filter(|&(column, name)| name != FILE_NAME && holds_truth(column))
            .map(|(_, name)| name.clone())
            .collect()
    }

    fn truth(&self, row: usize, column: usize) -> Result<bool, Error> {
        let cell = self.rows.cell(row, column);
        truth(cell).ok_or_else(|| self.refused(row, column, "1, 0, -1, true, false or nothing"))
    }

    fn refused(&self, row: usize, column: usize, wanted: &str) -> Error {
        let (path, line) = (self.path.display(), self.rows.lines[row]);
        let (column, cell) = (&self.rows.columns[column], self.rows.cell(row, column));
        Error::malformed(format!(
            "`{path}`, line {line}: column `{column}` holds `{cell}`, wanted {wanted}"
        ))
    }

    /// No cell of these labels is empty, except in rows for testing.
    fn check_filled_in(&self, labels: &Labels, portions: &[Portion]) -> Result<(), Error> {
        for name in labels.names() {
            let column = self.column(name)?;
            let is_empty = |row: &usize| {
                portions[*row] != Portion::Test && self.rows.cell(*row, column).is_empty()
            };
            if let Some(row) = (0..self.rows.len()).find(is_empty) {
                return Err(Error::mismatch(format!(
                    "`{}`, line {}: column `{name}` is empty, but an audit needs every label of every item\nhint: write 1 or 0",
                    self.path.display(),
                    self.rows.lines[row]
                )));
            }
        }
        Ok(())
    }

    /// What each row is for.
    fn portions(&self, column: Option<&str>) -> Result<Vec<Portion>, Error> {
        let rows = 0..self.rows.len();
        let named = column.map(|name| self.column(name)).transpose()?;
        let Some(column) = named.or_else(|| self.rows.column(SPLIT)) else {
            let portion = self.portion.unwrap_or(Portion::Train);
            return Ok(rows.map(|_| portion).collect());
        };
        let portion = |row| {
            let cell = self.rows.cell(row, column);
            Portion::named(cell).ok_or_else(|| self.refused(row, column, "train, valid or test"))
        };
        rows.map(portion).collect()
    }

    /// The files of all rows; each is there, once, and lies in the folder.
    fn paths(&self) -> Result<Vec<PathBuf>, Error> {
        let column = self.column(FILE_NAME)?;
        let names = (0..self.rows.len()).map(|row| self.rows.cell(row, column));
        let line = |row: usize| format!("line {}", self.rows.lines[row]);
        let (paths, missing) = file_name::locate(&self.path, names, line, &self.folder)?;
        match missing.first() {
            None => Ok(paths),
            Some(&row) => Err(Error::not_found(format!(
                "`{}`: {} of {} rows have no file; line {} names `{}`, which is not in `{}`\nhint: fetch the missing images, or remove their rows",
                self.path.display(),
                missing.len(),
                self.rows.len(),
                self.rows.lines[row],
                self.rows.cell(row, column),
                self.folder.display()
            ))),
        }
    }
}

/// Whether a label holds; none where a cell is neither yes nor no.
fn truth(cell: &str) -> Option<bool> {
    match cell {
        // Programs that know no empty whole number write all numbers of a column with a point.
        "1" | "1.0" => Some(true),
        "" | "0" | "0.0" | "-1" | "-1.0" => Some(false),
        _ if cell.eq_ignore_ascii_case("true") => Some(true),
        _ if cell.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
