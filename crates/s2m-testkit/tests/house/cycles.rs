//! Modules of a crate depend on each other one way: whoever reads one has to read those below it, and none above.
//!
//! What counts are paths in code (`crate::weigh`, and `super::weigh` in a file beside it) between a crate's first modules. What
//! the root re-exports counts as what it comes from; what is defined in the root itself counts as the root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::source::{Source, is_word, word};
use crate::{root, rust_files};

/// Dependencies that are not looked at, with the reason; `*` is every module.
const KNOWN: [(&str, &str, &str, &str); 2] = [
    (
        "s2m-experiments",
        "*",
        ROOT,
        "the root lists all experiments, and each of them is given the request and the bench",
    ),
    (
        "s2m-python",
        "*",
        ROOT,
        "the root makes the module's errors, which every part raises",
    ),
];

/// The root of a crate.
const ROOT: &str = "lib";

/// Who depends on whom, and in which file.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// The names that a path or a group of paths begins with.
fn heads(text: &str) -> Vec<&str> {
    let Some(group) = text.strip_prefix('{') else {
        return word(text).into_iter().collect();
    };
    let (mut depth, mut found, mut first) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        if depth == 0 && first && is_word(c) {
            found.extend(word(&group[at..]));
            first = false;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => first = true,
            _ => (),
        }
    }
    found
}

/// What stands behind each `crate::`, and each `super::` that leads to the root.
fn paths(code: &str, depth: usize) -> impl Iterator<Item = &str> {
    let of_crate = code
        .match_indices("crate::")
        .map(|(at, path)| (at, path.len()));
    let up = "super::".repeat(depth);
    let found: Vec<(usize, usize)> = match depth {
        0 => Vec::new(),
        _ => code
            .match_indices(&up)
            .map(|(at, up)| (at, up.len()))
            .collect(),
    };
    of_crate.chain(found).filter_map(move |(at, length)| {
        let before = &code[..at];
        let inside = before.ends_with(is_word) || before.ends_with("::") || before.ends_with('$');
        let rest = &code[at + length..];
        (!inside && !rest.starts_with("super::")).then_some(rest)
    })
}

/// What the root says: its modules, and what it re-exports from which.
fn modules(root: &Source) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let mut modules = BTreeSet::new();
    let mut exported = BTreeMap::new();
    for statement in root.code.split(';') {
        let words: Vec<&str> = statement.split_whitespace().collect();
        if let [.., "mod", name] = words[..] {
            modules.insert(name.to_owned());
        }
        let Some((before, path)) = statement.rsplit_once("use ") else {
            continue;
        };
        if !before
            .trim_end()
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .contains("pub")
        {
            continue;
        }
        let path = path
            .trim_start_matches("self::")
            .trim_start_matches("crate::");
        if let Some((module, names)) = path.split_once("::") {
            for name in names.split(|c| !is_word(c)) {
                exported.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    (modules, exported)
}

/// The modules of a crate and what each uses.
fn graph(source: &Path) -> Graph {
    let main = ["lib.rs", "main.rs"].map(|file| source.join(file));
    let main = main.iter().find(|file| file.is_file()).unwrap();
    let (modules, exported) = modules(&Source::read(main));
    let mut graph = Graph::new();
    for file in rust_files(source) {
        let name = file.strip_prefix(source).unwrap().with_extension("");
        let mut parts: Vec<&str> = name.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.contains(&"tests") || parts.contains(&"bin") || parts == ["main"] && file != *main
        {
            continue;
        }
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        if file == *main {
            parts.clear();
        }
        let own = parts.first().copied().unwrap_or(ROOT);
        let code = Source::read(&file).code;
        let mut used: BTreeSet<&str> = paths(&code, parts.len()).flat_map(heads).collect();
        if own == ROOT {
            used.extend(below(&code, &modules));
        }
        for name in used {
            let from = exported.get(name).map_or(name, String::as_str);
            let to = match modules.get(from) {
                Some(module) => module,
                // A re-export of another crate.
                None if exported.contains_key(name) => continue,
                None => ROOT,
            };
            if to != own {
                let file = file.strip_prefix(source).unwrap().display().to_string();
                let users = graph.entry(own.to_owned()).or_default();
                users.entry(to.to_owned()).or_insert(file);
            }
        }
    }
    graph
}

/// Modules that the root itself uses; what it re-exports is no use.
fn below<'m>(code: &str, modules: &'m BTreeSet<String>) -> impl Iterator<Item = &'m str> {
    let exports = |line: &str| line.trim_start().starts_with("pub") && line.contains("use ");
    let own: Vec<&str> = code
        .split(';')
        .filter(|part| !part.lines().any(exports))
        .collect();
    let uses = move |module: &&str| {
        let path = format!("{module}::");
        own.iter().any(|part| {
            let mut found = part.match_indices(&path);
            found.any(|(at, _)| {
                !part[..at].ends_with(|c| is_word(c) || c == ':') || part[..at].ends_with("self::")
            })
        })
    };
    modules.iter().map(String::as_str).filter(uses)
}

/// A way from a module back to itself.
fn cycle(graph: &Graph) -> Option<Vec<&str>> {
    fn walk<'g>(graph: &'g Graph, way: &mut Vec<&'g str>, done: &mut BTreeSet<&'g str>) -> bool {
        let here = *way.last().unwrap();
        for next in graph.get(here).into_iter().flat_map(BTreeMap::keys) {
            if let Some(first) = way.iter().position(|module| module == next) {
                way.drain(..first);
                way.push(next);
                return true;
            }
            if done.contains(next.as_str()) {
                continue;
            }
            way.push(next);
            if walk(graph, way, done) {
                return true;
            }
            way.pop();
        }
        done.insert(here);
        false
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|first| {
        let mut way = vec![first.as_str()];
        walk(graph, &mut way, &mut done).then_some(way)
    })
}

#[test]
fn modules_depend_on_each_other_one_way() {
    let crates = root().join("crates");
    for entry in fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let mut graph = graph(&folder.join("src"));
        for (_, from, to, reason) in KNOWN.iter().filter(|known| known.0 == name) {
            let users = graph
                .iter_mut()
                .filter(|(module, _)| ["*", module.as_str()].contains(from));
            let removed = users.filter_map(|(_, used)| used.remove(*to)).count();
            assert!(
                removed > 0,
                "{name}: `{from}` uses `{to}` no longer ({reason}); take it off the list"
            );
        }
        if let Some(way) = cycle(&graph) {
            let files: Vec<&str> = way
                .windows(2)
                .map(|pair| graph[pair[0]][pair[1]].as_str())
                .collect();
            panic!(
                "{name}: modules depend on each other in a circle: {}, by {}\nhint: move what both need to a module of its own",
                way.join(" → "),
                files.join(", ")
            );
        }
    }
}

#[test]
fn a_circle_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; pub use a::A; use c::C;");
    write("a.rs", "use crate::b::{self, B}; pub struct A;");
    write(
        "b.rs",
        "pub struct B; // crate::a\n#[cfg(test)]\nmod tests { use crate::a; }",
    );
    write("c.rs", "use super::b; pub struct C;");
    assert_eq!(cycle(&graph(folder.path())), None);
    write("b.rs", "use crate::{c::{C, a}, fmt};");
    assert_eq!(cycle(&graph(folder.path())).unwrap(), ["b", "c", "b"]);
    write("b.rs", "pub fn b() -> super::A { todo!() }");
    assert_eq!(cycle(&graph(folder.path())).unwrap(), ["a", "b", "a"]);
    write("b.rs", "use crate::Own;");
    let found = graph(folder.path());
    assert_eq!(cycle(&found).unwrap(), ["b", "lib", "c", "b"]);
}
