//! What people are told when libtorch stops.

use toml::Table;

/// Keys of a run file that take memory, with where they stand.
const SIZES: [&[&str]; 5] = [
    &["batch"],
    &["network", "channels"],
    &["network", "critic-channels"],
    &["network", "width"],
    &["network", "hidden"],
];

/// One line about a panic of libtorch; where memory was short, also what in the run file to lower.
pub fn explain(text: &str, run_file: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let message = first.split_once("Torch(\"").map_or(first, |(_, rest)| rest);
    let message = message.split("\\n").next().unwrap_or(message);
    if !text.contains("out of memory") && !text.contains("not enough memory") {
        return format!("libtorch stopped: {message}");
    }
    let table: Table = toml::from_str(run_file).unwrap_or_default();
    let stated: Vec<String> = SIZES.iter().filter_map(|key| state(&table, key)).collect();
    let hint = if stated.is_empty() {
        "hint: lower `batch`, or the widths under `network`".to_owned()
    } else {
        format!("hint: lower {}", stated.join(", or "))
    };
    format!("libtorch has no memory left: {message}\n{hint}")
}

/// A key with its value, as `batch` (now 64).
fn state(table: &Table, key: &[&str]) -> Option<String> {
    let (last, before) = key.split_last()?;
    let mut table = table;
    for part in before {
        table = table.get(*part)?.as_table()?;
    }
    let value = table.get(*last)?;
    Some(format!("`{}` (now {value})", key.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_short_is_answered_with_what_to_lower() {
        let text = "called `Result::unwrap()` on an `Err` value: Torch(\"CUDA out of memory. Tried to allocate 2.00 GiB.\\nException raised from malloc\")";
        let file = "batch = 4096\nnetwork = { kind = \"biggan\", latent = 80, channels = 96 }";
        assert_eq!(
            explain(text, file),
            "libtorch has no memory left: CUDA out of memory. Tried to allocate 2.00 GiB.\nhint: lower `batch` (now 4096), or `network.channels` (now 96)"
        );
        assert!(explain(text, "").ends_with("hint: lower `batch`, or the widths under `network`"));
    }

    #[test]
    fn other_failures_are_one_line() {
        assert_eq!(
            explain("Torch(\"driver went away\\nframe #0\")\nmore", "batch = 1"),
            "libtorch stopped: driver went away"
        );
        assert_eq!(explain("plain words", ""), "libtorch stopped: plain words");
    }
}
