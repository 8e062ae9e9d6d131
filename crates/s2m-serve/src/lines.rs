//! The command line and the Python lines that give the samples of a page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use s2m_model::networks::Device;
use serde::Serialize;

use crate::asked::Asked;
use crate::request::Request;

/// What the samples come from, as somebody would type it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    model: String,
    bank: Option<PathBuf>,
    /// The seed of the bank.
    pub(crate) seed: Option<u64>,
    device: Option<&'static str>,
    fast: bool,
}

/// The same samples elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Lines {
    pub(crate) shell: String,
    pub(crate) python: String,
}

impl Source {
    pub(crate) fn new(request: &Request<'_>, seed: Option<u64>) -> Self {
        let run = request.machine.run;
        Self {
            model: request.model.display().to_string(),
            bank: request.bank.map(Path::to_owned),
            seed,
            device: Some(run.device)
                .filter(|device| *device != Device::Cpu)
                .map(Device::name),
            fast: run.fast,
        }
    }

    /// The bank, where there is one.
    pub(crate) fn bank(&self) -> Option<&Path> {
        self.bank.as_deref()
    }

    /// The lines for one request.
    pub(crate) fn lines(&self, asked: &Asked) -> Lines {
        let Asked {
            query, n, purity, ..
        } = asked;
        let seed = self.seed.unwrap_or(asked.seed);
        let mut shell = format!("s2m sample {} {} -n {n}", typed(&self.model), quoted(query));
        let mut options = vec![literal(query), format!("n={n}")];
        if let Some(purity) = purity {
            let _ = write!(shell, " --purity {purity}");
        }
        match &self.bank {
            None => {
                let _ = write!(shell, " --seed {seed}");
                options.push(format!("seed={seed}"));
            }
            Some(bank) => {
                let bank = &bank.display().to_string();
                let _ = write!(shell, " --bank {}", typed(bank));
                options.push(format!("bank={}", literal(bank)));
            }
        }
        options.extend(purity.map(|purity| format!("purity={purity}")));
        let mut model = vec![literal(&self.model)];
        if let Some(device) = self.device {
            let _ = write!(shell, " --device {device}");
            model.push(format!("device={}", literal(device)));
        }
        if self.fast {
            shell += " --fast";
            model.push("fast=True".to_owned());
        }
        shell += " --out samples";
        let python = format!(
            "import s2m\ndraw = s2m.Model({}).sample({})",
            model.join(", "),
            options.join(", ")
        );
        Lines { shell, python }
    }
}

/// A word for a shell, in quotes where it needs them.
fn typed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        quoted(word)
    }
}

/// A text in quotes that a shell takes as it is.
fn quoted(text: &str) -> String {
    if text.chars().any(|c| "\"$`\\!'".contains(c)) {
        format!("'{}'", text.replace('\'', "'\\''"))
    } else {
        format!("\"{text}\"")
    }
}

/// A text as Python writes it.
fn literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            c if c.is_control() => literal.extend(format!("\\U{:08x}", c as u32).chars()),
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str, purity: Option<f64>) -> Asked {
        Asked {
            query: query.to_owned(),
            n: 64,
            seed: 7,
            purity,
        }
    }

    #[test]
    fn lines_are_what_somebody_would_type() {
        let mut request = Request::new("mnist-even");
        let lines = Source::new(&request, None).lines(&asked("A - B", None));
        assert_eq!(
            lines.shell,
            "s2m sample mnist-even \"A - B\" -n 64 --seed 7 --out samples"
        );
        assert_eq!(
            lines.python,
            "import s2m\ndraw = s2m.Model(\"mnist-even\").sample(\"A - B\", n=64, seed=7)"
        );
        request.bank = Some(Path::new("my bank"));
        request.machine.run.device = Device::Cuda;
        let lines = Source::new(&request, Some(3)).lines(&asked("\"A\" - B", Some(0.9)));
        assert_eq!(
            lines.shell,
            "s2m sample mnist-even '\"A\" - B' -n 64 --purity 0.9 --bank \"my bank\" --device cuda --out samples"
        );
        assert_eq!(
            lines.python,
            "import s2m\ndraw = s2m.Model(\"mnist-even\", device=\"cuda\").sample(\"\\\"A\\\" - B\", n=64, bank=\"my bank\", purity=0.9)"
        );
    }

    #[test]
    fn a_shell_takes_texts_as_they_are() {
        for text in [
            "A - B",
            "!A | B",
            "\"x y\" + 'z'",
            "$(reboot)",
            "`a`\\",
            "a\nb",
        ] {
            let echo = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(text))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(echo.stdout).unwrap(), text);
        }
        assert_eq!(
            (typed("a/b-c.s2m"), typed("")),
            ("a/b-c.s2m".to_owned(), "\"\"".to_owned())
        );
        assert_eq!(literal("a\"\\\n"), "\"a\\\"\\\\\\U0000000a\"");
    }
}
