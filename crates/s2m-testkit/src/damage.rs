//! Files that are damaged at random, and read: no panic, no hang, and nothing is written.
//!
//! `make fuzz` tries more of them: `S2M_FUZZ_CASES` of each kind, from the seed `S2M_FUZZ_SEED` on.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::folder::contents;

/// Cases of each kind where nothing is said.
const CASES: usize = 400;

/// Longest time that one of them may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn from_environment(name: &str, otherwise: usize) -> usize {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Numbers that look random; the same ones for a seed.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Bytes with a few bits flipped, numbers exchanged, pieces cut, doubled or moved.
    fn damage(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        for _ in 0..=self.below(4) {
            let (at, end) = (self.below(bytes.len()), self.below(bytes.len()));
            let (at, end) = (at.min(end), at.max(end).min(at.min(end) + 64));
            match self.below(7) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.below(256) as u8),
                2 if at < bytes.len() => bytes[at] = [0, 0x7f, 0x80, 0xff][self.below(4)],
                3 if at < bytes.len() => {
                    let digit = b"0123456789-.eE\"[]{}\n"[self.below(20)];
                    bytes[at] = digit;
                }
                4 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, piece);
                }
                5 => drop(bytes.drain(at..end)),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        bytes
    }
}

/// Ends the test where a case never ends; to be told whenever one begins.
fn watch(what: String) -> Sender<usize> {
    let (begun, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let mut case = 0;
        loop {
            match heard.recv_timeout(2 * PATIENCE) {
                Ok(next) => case = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    #[expect(clippy::print_stderr, reason = "the last words of a test")]
                    {
                        eprintln!("{what}, case {case} hangs");
                    }
                    std::process::abort();
                }
            }
        }
    });
    begun
}

/// Damages one file of a folder again and again, and reads: `read` tells whether that went well.
///
/// # Panics
///
/// Where reading panics, takes too long or writes: a test has failed then.
pub fn survive(kind: &str, folder: &Path, file: &str, read: &dyn Fn(&Path) -> bool) {
    try_all(
        from_environment("S2M_FUZZ_CASES", CASES),
        kind,
        folder,
        file,
        read,
    );
}

/// The same with a tenth of the cases, where `read` starts a program.
///
/// # Panics
///
/// As [`survive`].
pub fn survive_slow(kind: &str, folder: &Path, file: &str, read: &dyn Fn(&Path) -> bool) {
    let cases = from_environment("S2M_FUZZ_CASES", CASES) / 10;
    try_all(cases, kind, folder, file, read);
}

#[expect(clippy::print_stdout, reason = "`make fuzz` tells what it tried")]
fn try_all(cases: usize, kind: &str, folder: &Path, file: &str, read: &dyn Fn(&Path) -> bool) {
    let seed = from_environment("S2M_FUZZ_SEED", 1);
    let watched = watch(format!("{kind}: {file}, seed {seed}"));
    let all = Instant::now();
    let path = folder.join(file);
    let sound = fs::read(&path).expect("the file is there");
    assert!(read(folder), "{kind}: {file} is sound");
    let (mut noise, mut well) = (Noise(seed as u64), 0);
    for case in 0..cases {
        let damaged = noise.damage(&sound);
        fs::write(&path, &damaged).expect("the file can be written");
        let before = contents(folder, &[]);
        watched.send(case).expect("the watch stays");
        let started = Instant::now();
        let read = std::panic::AssertUnwindSafe(|| read(folder));
        let outcome = catch_unwind(read);
        let Ok(fine) = outcome else {
            panic!("{kind}: {file}, seed {seed}, case {case} panics: {damaged:?}");
        };
        well += usize::from(fine);
        let taken = started.elapsed();
        assert!(
            taken < PATIENCE,
            "{kind}: {file}, seed {seed}, case {case} takes {taken:?}"
        );
        assert!(
            contents(folder, &[]) == before,
            "{kind}: case {case} has written something"
        );
    }
    fs::write(&path, &sound).expect("the file can be written");
    let seconds = all.elapsed().as_secs_f64();
    println!(
        "{kind}, {file}: {cases} cases, {} refused, {well} still usable, {seconds:.1} s",
        cases - well
    );
}
