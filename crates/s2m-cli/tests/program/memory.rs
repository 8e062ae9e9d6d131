//! Memory does not grow with the number of items or proposals: the program's own high-water mark is read
//! while it runs.

use std::process::Stdio;
use std::time::Duration;

use super::program;

/// Most memory of any run below, in MB. Before numbers went to a file, the first took 276 MB and the
/// second 122; now both take about 62, of which ONNX Runtime and the program have 45.
const MOST: u64 = 100;

#[test]
fn memory_does_not_grow_with_the_number_of_items() {
    let items = "sample gaussians-exact A+B -n 400000 --threads 2 --out out";
    let proposals = "classes gaussians-exact -n 1500000 --threads 2";
    for arguments in [items, proposals] {
        let peak = peak(&arguments.split(' ').collect::<Vec<_>>());
        assert!((10..MOST).contains(&peak), "`{arguments}` took {peak} MB");
    }
}

/// The most memory that a run has ever held, in MB.
fn peak(arguments: &[&str]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    let mut running = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", running.id());
    let mut peak = 0;
    let code = loop {
        if let Some(code) = running.try_wait().unwrap() {
            break code;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
        peak = peak.max(size.map_or(0, |size| size.parse().unwrap()));
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(code.success());
    peak / 1024
}
