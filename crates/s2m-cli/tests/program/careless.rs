//! What a careless user tries: nothing is lost, nothing is wrong without a word, and nothing crashes or hangs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use s2m_model::bundle;
use s2m_testkit::exact;
use s2m_testkit::folder::contents;

use super::{Ran, program, run};

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Runs a command that must end within seconds, whatever it is given.
pub(super) fn run_soon(folder: &Path, arguments: &[&str]) -> Ran {
    let mut child = program(folder)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap().into()
}

#[test]
fn force_never_replaces_what_the_command_reads_or_what_is_not_samples() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    bundle::write(&at("toy.s2m"), &exact::gaussians_exact()).unwrap();
    let mine = ["mine", "toy.s2m", "-n", "1000", "--out", "bank"];
    assert_eq!(run(root.path(), &mine).code, 0);
    // Samples, and inside them what the next command reads.
    let first = ["sample", "toy.s2m", "A", "--out", "all"];
    assert_eq!(run(root.path(), &first).code, 0);
    fs::rename(at("toy.s2m"), at("all/toy.s2m")).unwrap();
    fs::rename(at("bank"), at("all/bank")).unwrap();
    let before = contents(root.path(), &[]);
    let draw = |model, out| {
        vec![
            "sample", model, "A", "--force", "--bank", "all/bank", "--out", out,
        ]
    };
    for (model, out, why) in [
        (
            "all/toy.s2m",
            "all/toy.s2m",
            "was not made by this program as samples",
        ),
        (
            "all/toy.s2m",
            "all/bank",
            "was not made by this program as samples",
        ),
        ("all/toy.s2m", "all", "which is read by this very command"),
        (
            "gaussians-exact",
            "all",
            "which is read by this very command",
        ),
    ] {
        let ran = run(root.path(), &draw(model, out));
        assert_eq!(ran.code, 2, "{out}");
        assert!(ran.err.contains(why), "{}", ran.err);
        assert!(contents(root.path(), &[]) == before, "{out}");
    }
}

#[test]
fn a_folder_that_cannot_be_replaced_is_named_before_any_work() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", root.path().join("link")).unwrap();
    // So much work that it would be noticed.
    let draw = |out| {
        [
            "sample",
            "gaussians-exact",
            "A",
            "-n",
            "100000000",
            "--out",
            out,
        ]
    };
    for (out, why) in [
        ("link", "error: `link` is a link that leads nowhere\n"),
        (
            "/proc",
            "error: `/proc` is a mount point, which cannot be replaced as a whole\n",
        ),
    ] {
        let ran = run_soon(root.path(), &draw(out));
        assert_eq!(ran.code, 2);
        assert!(ran.err.starts_with(why), "{}", ran.err);
    }
    assert_eq!(names(root.path()), ["link"]);
}

/// What was scored serves any number of items, after a kill and after a full disk.
#[test]
fn another_number_of_items_goes_on_from_what_was_scored() {
    use s2m_model::disk::step::Step;
    use s2m_testkit::faults::{Effect, Fault};
    let whole = tempfile::tempdir().unwrap();
    let draw = |samples, out| {
        [
            "sample",
            "gaussians-exact",
            "A - B",
            "-n",
            samples,
            "--out",
            out,
        ]
    };
    for samples in ["1000", "5000", "20000"] {
        assert_eq!(run(whole.path(), &draw(samples, samples)).code, 0);
    }
    for effect in [Effect::Kill, Effect::Full] {
        for samples in ["1000", "5000", "20000"] {
            let root = tempfile::tempdir().unwrap();
            let fault = Fault {
                moment: "before",
                step: Step::OutputWrite,
                effect,
                time: 1,
            };
            let mut first = program(root.path());
            let ran: Ran = fault
                .strike(first.args(draw("5000", "out")))
                .output()
                .unwrap()
                .into();
            assert_ne!(ran.code, 0);
            let journal = root.path().join("out.partial/logits.journal");
            let scored = fs::metadata(&journal).unwrap().len();
            // A second run that would score anything again would have to fail.
            let mut again = program(root.path());
            again.args(draw(samples, "out"));
            if samples != "20000" {
                again.env("S2M_FAULT", "before:journal-append:kill");
            }
            let ran: Ran = again.output().unwrap().into();
            assert_eq!(ran.code, 0, "{samples}: {}", ran.err);
            assert!(scored > 200_000, "{scored}");
            let (own, wanted) = (root.path().join("out"), whole.path().join(samples));
            assert!(contents(&own, &["seconds"]) == contents(&wanted, &["seconds"]));
        }
    }
}

/// One bit, in the numbers of a bank.
#[test]
fn a_flipped_bit_in_a_bank_is_said_and_not_drawn_from() {
    let root = tempfile::tempdir().unwrap();
    let mine = ["mine", "gaussians-exact", "-n", "5000", "--out", "bank"];
    assert_eq!(run(root.path(), &mine).code, 0);
    let part = root.path().join("bank/part-00000000.parquet");
    let mut bytes = fs::read(&part).unwrap();
    // The exponent of some number in the middle of the third column.
    bytes[50_003] ^= 0x40;
    fs::write(&part, bytes).unwrap();
    let ran = run(
        root.path(),
        &["classes", "gaussians-exact", "--bank", "bank"],
    );
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(
        ran.err,
        "error: `bank/part-00000000.parquet` is damaged: its numbers have changed since they were written\n\
         hint: delete it and mine again; the other parts are kept\n"
    );
}

#[test]
fn a_page_goes_only_where_a_file_can_and_the_table_is_printed_in_any_case() {
    use s2m_model::disk::step::Step;
    use s2m_testkit::faults::{Effect, Fault};
    let root = tempfile::tempdir().unwrap();
    for (name, by) in [("real.npy", 0.0), ("made.npy", 3.0)] {
        super::eval::write_line(&root.path().join(name), by);
    }
    fs::write(root.path().join("precious"), "x").unwrap();
    std::os::unix::fs::symlink("precious", root.path().join("link.html")).unwrap();
    let eval = |page| {
        [
            "eval",
            "--real",
            "real.npy",
            "--generated",
            "made.npy",
            "--metrics",
            "fid",
            "--html",
            page,
        ]
    };
    for (page, why) in [
        (
            "link.html",
            "error: could not write `link.html`: it is a link\n",
        ),
        (
            "/dev/null",
            "error: could not write `/dev/null`: it is not a plain file\n",
        ),
        (
            "/proc/page.html",
            "error: could not write `/proc/page.html`: ",
        ),
    ] {
        let ran = run(root.path(), &eval(page));
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (2, ""),
            "said before measuring"
        );
        assert!(ran.err.starts_with(why), "{}", ran.err);
    }
    let mut command = program(root.path());
    let fault = Fault {
        moment: "before",
        step: Step::FilePublish,
        effect: Effect::Full,
        time: 1,
    };
    let ran: Ran = fault
        .strike(command.args(eval("page.html")))
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("FID"), "{}", ran.out);
    assert!(
        ran.err
            .contains("error: could not write `page.html`: No space left"),
        "{}",
        ran.err
    );
    assert!(!root.path().join("page.html").exists());
}

#[test]
fn huge_numbers_are_refused_and_not_multiplied() {
    let root = tempfile::tempdir().unwrap();
    let huge = "9223372036854775807";
    let draw = ["sample", "gaussians-exact", "A - B", "--out", "out"];
    for more in [
        &["--adapt", "once", "--components", huge][..],
        &["--adapt", "repeat", "--components", huge],
        &["--adapt", "once", "--pilots", huge],
        &["--adapt", "once", "--pilots", huge, "--pilot-steps", huge],
        &["--adapt", "repeat", "--pilot-steps", huge],
        &["--batch", huge],
        &["--threads", huge],
    ] {
        let ran = run_soon(root.path(), &[&draw[..], more].concat());
        assert_eq!(ran.code, 2, "{more:?}: {}", ran.err);
        assert!(ran.err.starts_with("error: "), "{more:?}: {}", ran.err);
        assert!(names(root.path()).is_empty(), "{more:?}");
    }
}

#[test]
fn a_reader_of_a_completion_script_that_goes_away_is_no_fault() {
    for shell in ["bash", "zsh", "fish"] {
        let line = format!(
            "'{}' completions {shell} | true; echo ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_s2m")
        );
        let ran: Ran = Command::new("bash")
            .args(["-c", &line])
            .output()
            .unwrap()
            .into();
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("0\n", ""));
    }
}

#[test]
fn calibrate_copies_no_file_from_outside_a_bundle() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    bundle::write(&at("toy.s2m"), &exact::gaussians_exact()).unwrap();
    fs::write(at("secret"), "secret").unwrap();
    fs::create_dir(at("secrets")).unwrap();
    fs::write(at("secrets/one"), "secret").unwrap();
    let data = "name = \"gaussians\"\nseed = 0\nvalidation = 0.5\nlabelling = { model = \"per-class\" }\nsource = { format = \"gaussians\", items = 2000 }\n";
    fs::write(at("data.toml"), data).unwrap();
    let calibrate = [
        "calibrate",
        "toy.s2m",
        "--data",
        "data.toml",
        "--unseen",
        "--generated",
        "1000",
        "--out",
        "out.s2m",
    ];
    for target in ["../secret", "../secrets", ".."] {
        std::os::unix::fs::symlink(target, at("toy.s2m/notes")).unwrap();
        let ran = run(root.path(), &calibrate);
        assert_eq!(ran.code, 2);
        assert_eq!(
            ran.err.lines().last().unwrap(),
            "error: could not read `toy.s2m/notes`: it is a link that leads outside the bundle, or to no file"
        );
        assert!(!at("out.s2m").exists());
        fs::remove_file(at("toy.s2m/notes")).unwrap();
    }
    std::os::unix::fs::symlink("model.toml", at("toy.s2m/notes")).unwrap();
    assert_eq!(run(root.path(), &calibrate).code, 0);
}

/// Trials of a conditional generator count, and the estimate does not run away from the budget.
#[test]
fn a_budget_that_is_too_small_is_told_with_all_calls_and_an_honest_estimate() {
    let root = tempfile::tempdir().unwrap();
    let draw = |budget: &str| {
        let line = [
            "sample",
            "mnist-even-conditional",
            "A - B",
            "-n",
            "50",
            "--json",
            "--out",
            "out",
        ];
        let ran = run(root.path(), &[&line[..], &["--max-calls", budget]].concat());
        let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        (ran.code, said)
    };
    let (code, said) = draw("100");
    assert_eq!(code, 1);
    let why = said["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("100 generator calls gave"), "{why}");
    // Whoever follows the advice twice has samples.
    let mut budget = 200_u64;
    for _ in 0..6 {
        let (code, said) = draw(&budget.to_string());
        if code == 0 {
            assert!(said["generator_calls"].as_u64().unwrap() <= budget);
            return;
        }
        let why = said["why"].as_str().unwrap();
        let spent: u64 = why.split(' ').next().unwrap().parse().unwrap();
        assert!(spent <= budget, "{why}");
        let upper = why
            .split(" to ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse().ok());
        // Where no upper end can be told, that is said.
        assert!(upper.is_some() || why.contains("cannot be told"), "{why}");
        budget = upper.unwrap_or(budget * 4);
    }
    panic!("{budget} calls are not enough");
}

#[test]
fn json_tells_why_there_are_no_samples() {
    let root = tempfile::tempdir().unwrap();
    let line = [
        "sample",
        "gaussians-exact",
        "A - B",
        "-n",
        "1000",
        "--max-calls",
        "600",
        "--json",
        "--out",
        "out",
    ];
    let ran = run(root.path(), &line);
    assert_eq!(ran.code, 1);
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&said["query"], &said["samples"]),
        (&"A - B".into(), &0.into())
    );
    assert!(
        said["why"]
            .as_str()
            .unwrap()
            .starts_with("600 generator calls gave"),
        "{said}"
    );
    assert!(
        said["hint"].as_str().unwrap().contains("--max-calls"),
        "{said}"
    );
}

#[test]
fn a_cache_that_cannot_be_written_names_the_cure() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("pictures")).unwrap();
    for shade in 0..12 {
        super::eval::write_picture(&root.path().join(format!("pictures/{shade}.png")), shade);
    }
    let referee = super::eval::referee("mnist.onnx");
    let line = [
        "eval",
        "--real",
        "pictures",
        "--generated",
        "pictures",
        "--referee",
        &referee,
        "--metrics",
        "fid",
    ];
    let ran = run(
        root.path(),
        &[&line[..], &["--cache", "/proc/cache"]].concat(),
    );
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let last: Vec<&str> = ran.err.lines().rev().take(2).collect();
    assert!(
        last[1].starts_with("error: could not keep features in `/proc/cache`: "),
        "{}",
        ran.err
    );
    assert_eq!(
        last[0],
        "hint: --no-cache keeps none, and --cache DIR keeps them elsewhere"
    );
    assert_eq!(
        run(root.path(), &[&line[..], &["--no-cache"]].concat()).code,
        0
    );
}
