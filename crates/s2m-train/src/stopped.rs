//! Why a training stopped: it diverged, memory ran out, libtorch failed, or this program has a fault.
//!
//! libtorch's errors reach Rust as panics of the crate `tch`, and so do our own mistakes as panics of
//! ours; the place of a panic tells them apart.

use std::fmt;

use s2m_runs::outline::SIZES;
use toml::Table;

/// A loss that is no number: the training ran, and there is no result.
#[derive(Debug, Clone, PartialEq)]
pub struct Diverged {
    /// What was trained.
    pub replica: String,
    /// The first step at which it shows, from 1 on.
    pub step: u64,
    /// Which loss.
    pub loss: &'static str,
    /// What it is.
    pub value: f64,
}

impl fmt::Display for Diverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replica,
            step,
            loss,
            value,
        } = self;
        write!(
            f,
            "training of {replica} broke at step {step}: loss `{loss}` is {value}\nhint: lower the learning rate in the run file and start in another folder"
        )
    }
}

impl std::error::Error for Diverged {}

/// What a panic was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Panicked {
    /// There is no memory left, on the processor or on a graphics card.
    Memory {
        /// What libtorch said.
        text: String,
        /// What in the run file takes memory, with its value.
        sizes: Vec<String>,
    },
    /// libtorch refused something.
    Libtorch(String),
    /// A mistake in this program.
    Ours {
        /// Where.
        place: String,
        /// What it said.
        text: String,
    },
}

/// Folders of crates through which libtorch speaks.
const LIBTORCH: [&str; 2] = ["/tch-", "/torch-sys-"];

/// What libtorch says where it finds no memory.
const NO_MEMORY: [&str; 3] = [
    "out of memory",
    "can't allocate memory",
    "not enough memory",
];

/// A key with its value, as `batch` (now 64).
fn size(table: &Table, key: &[&str]) -> Option<String> {
    let (last, before) = key.split_last()?;
    let mut table = table;
    for part in before {
        table = table.get(*part)?.as_table()?;
    }
    let value = table.get(*last)?;
    Some(format!("`{}` (now {value})", key.join(".")))
}

impl Panicked {
    /// By the place and the words of a panic, under a run file.
    pub fn new(file: &str, line: u32, text: &str, run_file: &str) -> Self {
        let first = text.lines().next().unwrap_or_default();
        let first = first.split_once("Torch(\"").map_or(first, |(_, rest)| rest);
        let first = first.split("\\n").next().unwrap_or(first).to_owned();
        if !LIBTORCH.iter().any(|folder| file.contains(folder)) {
            return Self::Ours {
                place: format!("{file}:{line}"),
                text: first,
            };
        }
        let low = text.to_lowercase();
        if NO_MEMORY.iter().any(|words| low.contains(words)) {
            let table: Table = toml::from_str(run_file).unwrap_or_default();
            return Self::Memory {
                text: first,
                sizes: SIZES.iter().filter_map(|key| size(&table, key)).collect(),
            };
        }
        Self::Libtorch(first)
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { text, sizes } => {
                let sizes = match &sizes[..] {
                    [] => "`batch`, or the widths under `network`".to_owned(),
                    sizes => sizes.join(", or "),
                };
                write!(
                    f,
                    "there is not enough memory: {text}\nhint: lower {sizes}, or train fewer data sets and seeds at once; what is trained so far is kept"
                )
            }
            Self::Libtorch(text) => write!(f, "libtorch stopped: {text}"),
            Self::Ours { place, text } => write!(
                f,
                "a fault in s2m-train at {place}: {text}\nhint: this is a mistake in the program; please report this line with the run file"
            ),
        }
    }
}

impl std::error::Error for Panicked {}

#[cfg(test)]
mod tests {
    use super::*;

    const TCH: &str = "registry/src/tch-0.24.0/src/wrappers/tensor_generated.rs";

    #[test]
    fn causes_are_told_apart() {
        let memory = Panicked::new(
            TCH,
            7,
            "called `Result::unwrap()` on an `Err` value: Torch(\"CUDA out of memory. Tried to allocate 2.00 GiB.\\nException raised from malloc\")",
            "batch = 4096\nnetwork = { kind = \"biggan\", latent = 80, channels = 96 }",
        );
        assert_eq!(
            memory.to_string(),
            "there is not enough memory: CUDA out of memory. Tried to allocate 2.00 GiB.\n\
             hint: lower `batch` (now 4096), or `network.channels` (now 96), or train fewer data sets and seeds at once; what is trained so far is kept"
        );
        let text = "DefaultCPUAllocator: can't allocate memory: you tried";
        let memory = Panicked::new(TCH, 7, text, "");
        assert!(matches!(memory, Panicked::Memory { .. }), "{memory}");
        assert!(
            memory
                .to_string()
                .contains("lower `batch`, or the widths under `network`")
        );
        let text = "shape '[3]' is invalid\nException raised from";
        let libtorch = Panicked::new(TCH, 7, text, "");
        assert_eq!(
            libtorch.to_string(),
            "libtorch stopped: shape '[3]' is invalid"
        );
        let ours = Panicked::new("crates/s2m-train/src/gan.rs", 12, "index out of bounds", "");
        assert_eq!(
            ours.to_string(),
            "a fault in s2m-train at crates/s2m-train/src/gan.rs:12: index out of bounds\n\
             hint: this is a mistake in the program; please report this line with the run file"
        );
    }

    /// The place that a real refusal of libtorch names.
    #[test]
    fn a_panic_of_the_crate_that_calls_libtorch_is_libtorchs() {
        use std::sync::{Arc, Mutex};
        let seen = Arc::new(Mutex::new(None));
        let noted = seen.clone();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let file = info.location().map(|place| place.file().to_owned());
            *noted.lock().unwrap() = file;
        }));
        let failed = std::panic::catch_unwind(|| {
            tch::Tensor::zeros([2, 3], (tch::Kind::Float, tch::Device::Cpu)).reshape([7])
        });
        std::panic::set_hook(before);
        assert!(failed.is_err());
        let file = seen.lock().unwrap().clone().unwrap();
        let found = Panicked::new(&file, 1, "shape", "");
        assert!(matches!(found, Panicked::Libtorch(_)), "{file}");
    }
}
