//! `s2m serve`: the address that it prints, the lines that it shows, its memory, and its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{program, run};

/// A server of its own process.
struct Serving {
    child: Child,
    host: String,
    token: String,
}

impl Serving {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = program(folder)
            .arg("serve")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut address).unwrap();
        let address = address.trim().strip_prefix("http://").unwrap();
        let (host, token) = address.split_once("/#").unwrap();
        Self {
            host: host.to_owned(),
            token: token.to_owned(),
            child,
        }
    }

    fn post(&self, path: &str, visitor: &str, body: &Value) -> Vec<u8> {
        let Self { host, token, .. } = self;
        let body = body.to_string();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nhost: {host}\r\ns2m-token: {token}\r\ns2m-visitor: {visitor}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        answer.split_off(end + 4)
    }

    fn enter(&self) -> String {
        let entered: Value =
            serde_json::from_slice(&self.post("/api/enter", "", &json!({}))).unwrap();
        entered["visitor"].as_str().unwrap().to_owned()
    }

    /// Memory of the server in MB.
    #[cfg(target_os = "linux")]
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap() / 1024
    }

    /// Ctrl-C, and what it says in the end.
    fn interrupt(mut self) -> (i32, String) {
        let killed = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let mut said = String::new();
        let err = self.child.stderr.as_mut().unwrap();
        err.read_to_string(&mut said).unwrap();
        (code, said)
    }
}

/// The command line on the page, typed into a shell, writes the images that the page downloads.
#[test]
fn the_command_line_on_the_page_gives_the_same_samples() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path(), &["mnist-even"]);
    let asked = json!({ "query": "A - \"B\"", "n": 12, "seed": 5, "purity": 0.97 });
    let zip = serving.post("/api/download", &serving.enter(), &asked);
    let checked: Value = serde_json::from_slice(&serving.post("/api/check", "", &asked)).unwrap();
    let line = checked["lines"]["shell"].as_str().unwrap();
    assert_eq!(
        line,
        "s2m sample mnist-even 'A - \"B\"' -n 12 --purity 0.97 --seed 5 --out samples"
    );
    let beside = Path::new(env!("CARGO_BIN_EXE_s2m")).parent().unwrap();
    let path = format!("{}:{}", beside.display(), std::env::var("PATH").unwrap());
    let shell = Command::new("sh")
        .args(["-c", line])
        .env("PATH", path)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        shell.status.success(),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
    for at in 0..12 {
        let image =
            std::fs::read(folder.path().join(format!("samples/images/{at:05}.png"))).unwrap();
        assert!(
            zip.windows(image.len()).any(|part| part == image),
            "image {at}"
        );
    }
    let table = std::fs::read(folder.path().join("samples/metadata.csv")).unwrap();
    assert!(zip.windows(table.len()).any(|part| part == table));
    let (code, said) = serving.interrupt();
    assert_eq!(
        (code, said.as_str()),
        (
            0,
            "serving `mnist-even` to this machine only; Ctrl-C ends it\n"
        )
    );
}

#[test]
fn a_port_that_is_taken_and_a_model_that_is_not_there_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path(), &["gaussians-exact", "--quiet"]);
    let port = serving.host.rsplit(':').next().unwrap().to_owned();
    let taken = run(
        folder.path(),
        &["serve", "gaussians-exact", "--port", &port],
    );
    assert_eq!((taken.code, taken.out.as_str()), (2, ""));
    let start = format!("error: could not listen on 127.0.0.1:{port}: ");
    assert!(taken.err.starts_with(&start), "{}", taken.err);
    assert!(
        taken
            .err
            .ends_with("\nhint: leave --port out, and a free one is taken\n"),
        "{}",
        taken.err
    );
    let (code, said) = serving.interrupt();
    assert_eq!((code, said.as_str()), (0, ""));
    let none = run(folder.path(), &["serve", "nothing.s2m"]);
    assert_eq!(none.code, 2);
    assert!(
        none.err.starts_with("error: no model `nothing.s2m`: "),
        "{}",
        none.err
    );
    let no_bank = run(
        folder.path(),
        &["serve", "gaussians-exact", "--bank", "nowhere"],
    );
    assert_eq!(no_bank.code, 2, "{}", no_bank.err);
}

/// Round after round fifty visitors draw at the same time, and the server is as large after the last as after the first.
///
/// Seen over 25 rounds: 79 to 82 MB, and 135 to 220 MB without `give_memory_back`.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_where_it_is() {
    const ROUNDS: usize = 8;
    const VISITORS: u64 = 50;
    const SPREAD: u64 = 16;
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path(), &["mnist-even", "--quiet"]);
    let mut memory = Vec::new();
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            for at in 0..VISITORS {
                let serving = &serving;
                scope.spawn(move || {
                    let asked =
                        json!({ "query": "A - B", "n": 32, "seed": at / 2, "purity": null });
                    let told = serving.post("/api/draw", &serving.enter(), &asked);
                    let told = String::from_utf8_lossy(&told);
                    assert!(told.contains("event: done\n"), "{told}");
                });
            }
        });
        memory.push(serving.resident());
    }
    println!("{memory:?} MB");
    assert!(
        memory.iter().all(|at| *at < memory[0] + SPREAD),
        "{memory:?} MB"
    );
    serving.interrupt();
}
