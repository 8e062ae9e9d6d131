//! Names of files out of lists that come from anywhere: a name leads into its folder or is refused.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;

/// The files of the names of a list, and the numbers of those that are not there.
///
/// Every name leads into `folder`, links included, and is there once; `at` tells where in the list
/// a name is.
pub(crate) fn locate<'a>(
    list: &Path,
    names: impl Iterator<Item = &'a str>,
    at: impl Fn(usize) -> String,
    folder: &Path,
) -> Result<(Vec<PathBuf>, Vec<usize>), Error> {
    let real = folder.canonicalize().map_err(Error::reading(folder))?;
    let mut known = HashMap::new();
    let (mut paths, mut missing) = (Vec::new(), Vec::new());
    for (number, name) in names.enumerate() {
        let refused = |error: Error| {
            error.within(format_args!(
                "`{}`, {}: the file name {name:?} is refused",
                list.display(),
                at(number)
            ))
        };
        let relative = relative(name).map_err(refused)?;
        let path = folder.join(&relative);
        if let Some(first) = known.insert(relative, number) {
            return Err(Error::malformed(format!(
                "`{}`: `{name}` is in {} and again in {}",
                list.display(),
                at(first),
                at(number)
            )));
        }
        match follow(&real, &path).map_err(Error::reading(&path))? {
            Followed::File => {}
            Followed::NoFile => missing.push(number),
            Followed::Outside => {
                return Err(refused(Error::malformed(
                    "it is a link that leads out of its folder",
                )));
            }
        }
        paths.push(path);
    }
    Ok((paths, missing))
}

/// The relative path of a name, without parts that mean nothing.
fn relative(name: &str) -> Result<PathBuf, Error> {
    if name.contains('\\') {
        return Err(Error::malformed(
            "it holds a backslash\nhint: write `/` between folders",
        ));
    }
    if name.contains(char::is_control) {
        return Err(Error::malformed("it holds a control character"));
    }
    // A drive is a drive on every system, so that a list means the same on all of them.
    if matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic()) {
        return Err(Error::malformed(
            "it is absolute\nhint: names are relative to the folder of the images",
        ));
    }
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err(Error::malformed("it leads upwards with `..`")),
            Component::RootDir | Component::Prefix(_) => {
                return Err(Error::malformed(
                    "it is absolute\nhint: names are relative to the folder of the images",
                ));
            }
        }
    }
    if path.as_os_str().is_empty() {
        return Err(Error::malformed("it is empty"));
    }
    Ok(path)
}

/// What a path comes to once links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    /// A file within the folder.
    File,
    /// Nothing, or no file.
    NoFile,
    /// Something outside the folder.
    Outside,
}

/// Follows the links of a path.
///
/// `folder` has to be free of links itself, as [`Path::canonicalize`] gives it.
fn follow(folder: &Path, path: &Path) -> io::Result<Followed> {
    match path.canonicalize() {
        Ok(real) if !real.starts_with(folder) => Ok(Followed::Outside),
        Ok(real) if real.is_file() => Ok(Followed::File),
        Ok(_) => Ok(Followed::NoFile),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Followed::NoFile),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tricks_are_refused() {
        for (name, wanted) in [
            ("", Error::malformed("it is empty")),
            (".", Error::malformed("it is empty")),
            (
                "/etc/passwd",
                Error::malformed(
                    "it is absolute\nhint: names are relative to the folder of the images",
                ),
            ),
            (
                "C:/x.png",
                Error::malformed(
                    "it is absolute\nhint: names are relative to the folder of the images",
                ),
            ),
            (
                "c:x.png",
                Error::malformed(
                    "it is absolute\nhint: names are relative to the folder of the images",
                ),
            ),
            ("../x.png", Error::malformed("it leads upwards with `..`")),
            (
                "a/../../x.png",
                Error::malformed("it leads upwards with `..`"),
            ),
            ("a/..", Error::malformed("it leads upwards with `..`")),
            (
                "..\\x.png",
                Error::malformed("it holds a backslash\nhint: write `/` between folders"),
            ),
            (
                "a\\b.png",
                Error::malformed("it holds a backslash\nhint: write `/` between folders"),
            ),
            ("a\nb.png", Error::malformed("it holds a control character")),
            ("a\0b.png", Error::malformed("it holds a control character")),
        ] {
            assert_eq!(relative(name), Err(wanted), "{name:?}");
        }
    }

    #[test]
    fn plain_names_are_kept() {
        for (name, wanted) in [
            ("x.png", "x.png"),
            ("./a//b/./x.png", "a/b/x.png"),
            ("..x.png", "..x.png"),
            ("12:30.png", "12:30.png"),
            ("ü ö.png", "ü ö.png"),
        ] {
            assert_eq!(relative(name), Ok(PathBuf::from(wanted)));
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_may_not_lead_out() {
        use std::os::unix::fs::symlink;

        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.png"), "").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::write(folder.join("a.png"), "").unwrap();
        symlink(folder.join("a.png"), folder.join("b.png")).unwrap();
        symlink(outside.path().join("secret.png"), folder.join("c.png")).unwrap();
        symlink(outside.path(), folder.join("deeper")).unwrap();
        symlink(folder.join("none"), folder.join("d.png")).unwrap();
        symlink(folder.join("e.png"), folder.join("e.png")).unwrap();
        let followed = |name: &str| follow(&folder, &folder.join(name)).unwrap();
        assert_eq!(followed("a.png"), Followed::File);
        assert_eq!(followed("b.png"), Followed::File);
        assert_eq!(followed("c.png"), Followed::Outside);
        assert_eq!(followed("deeper/secret.png"), Followed::Outside);
        assert_eq!(followed("d.png"), Followed::NoFile);
        assert_eq!(followed("a.png/x"), Followed::NoFile);
        assert!(follow(&folder, &folder.join("e.png")).is_err());
    }

    proptest! {
        #[test]
        fn what_is_kept_stays_below(name in "[./\\\\a:\0-]{0,12}") {
            if let Ok(path) = relative(&name) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            }
        }
    }
}
