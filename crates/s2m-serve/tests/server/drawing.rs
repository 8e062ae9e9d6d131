//! What is drawn, explained, predicted and taken away, against the library's own answers.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use s2m::Model;
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{Wanted, sample};
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use serde_json::{Value, json};

use crate::client::{Page, asked, followed, next_chunk};

fn numbers(samples: &[Value]) -> Vec<u64> {
    samples
        .iter()
        .map(|one| one["proposal"].as_u64().unwrap_or(u64::MAX))
        .collect()
}

#[test]
fn samples_are_those_of_the_library() {
    for (name, query, n, seed, purity) in [
        ("gaussians-exact", "A - B", 700, 7, None),
        ("mnist-even", "A - B", 64, 7, None),
        ("mnist-even", "A + B", 32, 1, Some(0.98)),
        ("mnist-even-conditional", "A - B", 32, 5, None),
    ] {
        let page = Page::open(name);
        let visitor = page.enter();
        let asked = json!({ "query": query, "n": n, "seed": seed, "purity": purity });
        let (samples, (last, report)) = followed(&page.draw(&visitor, &asked));
        assert_eq!(last, "done", "{report}");
        let mut ask = Model::open(name).unwrap().query(query).unwrap().seed(seed);
        if let Some(purity) = purity {
            ask = ask.purity(purity);
        }
        let draw = ask.draw(n).unwrap();
        assert_eq!(numbers(&samples), draw.samples.proposals, "{name} {query}");
        let own = serde_json::to_value(&draw.report).unwrap();
        for field in [
            "query",
            "seed",
            "details",
            "settings",
            "calibration",
            "calls_per_sample",
            "predicted_purity",
            "tv_bound",
            "bundle_hash",
        ] {
            assert_eq!(report[field], own[field], "{name} {field}");
        }
        if let s2m::Items::Points(points) = &draw.samples.items {
            let shown = samples
                .iter()
                .flat_map(|one| one["item"]["point"].as_array().unwrap());
            let shown: Vec<f32> = shown.map(|value| value.as_f64().unwrap() as f32).collect();
            assert_eq!(&shown, points);
        }
    }
}

/// The folder in the zip file is the folder of `s2m sample`, but for the seconds it took.
#[test]
fn a_download_is_the_folder_of_the_program() {
    for (name, query, n) in [
        ("mnist-even", "A - B", 20),
        ("gaussians-exact", "A | B", 300),
    ] {
        let page = Page::open(name);
        let visitor = page.enter();
        let answer = page.post("/api/download", &visitor, &asked(query, n, 3));
        assert_eq!(answer.status, 200, "{:?}", answer.why());
        assert!(
            answer
                .head
                .contains("content-disposition: attachment; filename=\"samples.zip\"")
        );
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("samples");
        let request = s2m::sample::Request {
            model: Path::new(name),
            wanted: Wanted::Query(query),
            samples: NonZeroUsize::new(n).unwrap(),
            settings: SampleSettings {
                seed: Some(3),
                ..SampleSettings::default()
            },
            machine: Machine::default(),
            bank: None,
            proposal: None,
            out: &out,
            existing: Existing::Keep,
        };
        sample(&request, &Silent).unwrap()[0].as_ref().unwrap();
        let (mut zipped, mut written) = (unzip(&answer.body), BTreeMap::new());
        collect(folder.path(), folder.path(), &mut written);
        let report = |files: &mut BTreeMap<String, Vec<u8>>| {
            let bytes = files.remove("samples/report.json").unwrap();
            let mut report: Value = serde_json::from_slice(&bytes).unwrap();
            report["seconds"] = json!(0);
            report
        };
        assert_eq!(report(&mut zipped), report(&mut written), "{name}");
        assert_eq!(
            zipped.keys().collect::<Vec<_>>(),
            written.keys().collect::<Vec<_>>()
        );
        assert!(zipped == written, "{name}: some file differs");
        // And the images of a drawing are those of the folder.
        if name == "mnist-even" {
            let (samples, _) = followed(&page.draw(&visitor, &asked(query, n, 3)));
            for (at, one) in samples.iter().enumerate() {
                let png = unbase64(one["item"]["picture"].as_str().unwrap());
                assert!(
                    png == zipped[&format!("samples/images/{at:05}.png")],
                    "{at}"
                );
            }
        }
        assert_eq!(page.state()["drawing"], 0);
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it is there").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .expect("it is inside")
                .display()
                .to_string();
            files.insert(name, std::fs::read(&path).expect("it is there"));
        }
    }
}

/// Files that are stored as they are.
fn unzip(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let (mut files, mut at) = (BTreeMap::new(), 0);
    while bytes[at..].starts_with(b"PK\x03\x04") {
        let number = |from: usize, count: usize| {
            let each = bytes[at + from..at + from + count].iter().rev();
            each.fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let (size, name) = (number(22, 4), number(26, 2));
        let text = String::from_utf8(bytes[at + 30..at + 30 + name].to_vec()).expect("UTF-8");
        files.insert(text, bytes[at + 30 + name..at + 30 + name + size].to_vec());
        at += 30 + name + size;
    }
    files
}

fn unbase64(text: &str) -> Vec<u8> {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text
        .chars()
        .filter_map(|c| digits.find(c))
        .collect::<Vec<_>>();
    let mut bytes = Vec::new();
    for four in values.chunks(4) {
        let bits = four.iter().fold(0, |sum, value| sum << 6 | value) << (6 * (4 - four.len()));
        bytes.extend((0..four.len() - 1).map(|at| (bits >> (16 - 8 * at)) as u8));
    }
    bytes
}

/// Whoever leaves has drawn for the last time, however much was asked for.
#[test]
fn a_drawing_ends_when_its_visitor_leaves() {
    let page = Page::open("mnist-even");
    page.until("proposals are scored", |state| {
        state["proposals"]["ready"] == true
    });
    for read_first in [true, false] {
        let visitor = page.enter();
        let mut stream = page.connect();
        let asked = json!({ "query": "A + B", "n": 2000, "seed": 4, "purity": 0.999 });
        let request = page.posted("/api/draw", &visitor, &asked);
        stream.write_all(request.as_bytes()).unwrap();
        page.until("it draws", |state| state["drawing"] == 1);
        if read_first {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
            }
            next_chunk(&mut reader).unwrap();
        }
        let left = Instant::now();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        drop(stream);
        page.until("it ended", |state| state["drawing"] == 0);
        assert!(
            left.elapsed() < Duration::from_secs(5),
            "{:?}",
            left.elapsed()
        );
    }
    // The same for whoever says so, and for a download.
    let visitor = page.enter();
    let dear = json!({ "query": "A + B", "n": 2000, "seed": 4, "purity": 0.999 });
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| page.draw(&visitor, &dear));
        page.until("it draws", |state| state["drawing"] == 1);
        assert_eq!(page.post("/api/stop", &visitor, &json!({})).status, 200);
        let events = drawing.join().unwrap();
        assert_ne!(events.last().map(|last| last.0.as_str()), Some("done"));
    });
    let mut stream = page.connect();
    stream
        .write_all(page.posted("/api/download", &visitor, &dear).as_bytes())
        .unwrap();
    page.until("it draws", |state| state["drawing"] == 1);
    drop(stream);
    page.until("it ended", |state| state["drawing"] == 0);
}

#[test]
fn a_visitor_has_one_drawing_at_a_time() {
    let page = Page::open("mnist-even");
    let visitor = page.enter();
    let dear = json!({ "query": "A + B", "n": 2000, "seed": 4, "purity": 0.999 });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counted = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(page.state()["drawing"].as_u64().unwrap());
            }
            most
        });
        let first = scope.spawn(|| page.draw(&visitor, &dear));
        page.until("it draws", |state| state["drawing"] == 1);
        let second = page.draw(&visitor, &asked("A - B", 16, 0));
        let (samples, (last, _)) = followed(&second);
        assert_eq!((samples.len(), last.as_str()), (16, "done"));
        let first = first.join().unwrap();
        assert_ne!(first.last().map(|last| last.0.as_str()), Some("done"));
        over.store(true, Ordering::Relaxed);
        assert_eq!(counted.join().unwrap(), 1);
    });
    // What is explained is the last drawing.
    let explained = page.post("/api/explain", &visitor, &json!({ "proposal": 0 }));
    assert_eq!(explained.json()["explained"]["query"], "A - B");
}

/// What is shown stays what is explained, and a drawing that runs goes on to its end.
#[test]
fn a_download_leaves_what_is_shown_alone() {
    let page = Page::open("mnist-even");
    let visitor = page.enter();
    let (samples, _) = followed(&page.draw(&visitor, &asked("A - B", 16, 0)));
    let other = page.post("/api/download", &visitor, &asked("A + B", 4, 1));
    assert_eq!(other.status, 200, "{:?}", other.why());
    let pointed = json!({ "proposal": samples[3]["proposal"] });
    for path in ["/api/explain", "/api/more"] {
        let told = page.post(path, &visitor, &pointed);
        assert_eq!(told.status, 200, "{path}: {:?}", told.why());
    }
    let explained = page.post("/api/explain", &visitor, &pointed).json();
    assert_eq!(explained["explained"]["query"], "A - B");

    let dear = json!({ "query": "A + B", "n": 2000, "seed": 4, "purity": 0.99 });
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| page.draw(&visitor, &dear));
        page.until("it draws", |state| state["drawing"] == 1);
        let asked = asked("A - B", 4, 1);
        let answer = page.post("/api/download", &visitor, &asked);
        assert_eq!(answer.status, 200, "{:?}", answer.why());
        let (samples, (last, _)) = followed(&drawing.join().unwrap());
        assert_eq!((samples.len(), last.as_str()), (2000, "done"));
    });
}

/// Scoring in the background does not keep whoever asks from an answer.
#[test]
fn questions_are_answered_while_proposals_are_scored() {
    let page = Page::open("mnist-even");
    let mut waits = Vec::new();
    for n in 0.. {
        // What is remembered would need no proposals.
        let query = format!("A - B{}", " ".repeat(n % 500));
        let began = Instant::now();
        let answer = page.post("/api/predict", "", &asked(&query, 1, 0));
        assert_eq!(answer.status, 200);
        if page.state()["proposals"]["ready"] == true {
            break;
        }
        waits.push(began.elapsed());
    }
    // An answer that waits for the proposals would come when they are ready.
    let longest = waits.iter().max();
    assert!(
        longest.is_some_and(|wait| *wait < Duration::from_secs(2)),
        "{waits:?}"
    );
}

#[test]
fn predictions_classes_and_explanations_are_the_librarys() {
    let page = Page::open("mnist-even");
    let visitor = page.enter();
    let early = page.get("/api/classes");
    assert!(early.status == 503 || early.status == 200);
    page.until("proposals are scored", |state| {
        state["proposals"]["ready"] == true
    });
    let classes = page.get("/api/classes").json();
    let predicted = page.post("/api/predict", "", &asked("A - B", 1, 0)).json();
    let class = &classes["classes"][0];
    assert_eq!(class["query"], "A - B");
    let near = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-9;
    for field in ["predicted_purity", "calls_per_sample"] {
        assert!(
            near(&class[field], &predicted["own"][field]),
            "{field}: {class} {predicted}"
        );
    }
    // All digits are A, and floors let a part of them pass.
    let all = page.post("/api/predict", "", &asked("A", 1, 0)).json();
    for share in [&all["own"]["share"], &predicted["own"]["share"]] {
        assert!(
            share
                .as_f64()
                .is_some_and(|share| share > 0.2 && share <= 1.0),
            "{share}"
        );
    }
    let calls: Vec<f64> = predicted["at"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one[1]["calls_per_sample"].as_f64())
        .collect();
    assert!(
        calls.len() > 5 && calls.windows(2).all(|pair| pair[0] <= pair[1]),
        "{calls:?}"
    );
    let again = Instant::now();
    for _ in 0..20 {
        assert_eq!(
            page.post("/api/predict", "", &asked("A - B", 1, 0)).json(),
            predicted
        );
    }
    assert!(again.elapsed() < Duration::from_secs(2), "it is remembered");

    let (samples, _) = followed(&page.draw(&visitor, &asked("A - B", 24, 9)));
    let draw = Model::open("mnist-even")
        .unwrap()
        .query("A - B")
        .unwrap()
        .seed(9)
        .draw(24)
        .unwrap();
    let proposal = samples[5]["proposal"].as_u64().unwrap();
    let told = page
        .post("/api/explain", &visitor, &json!({ "proposal": proposal }))
        .json();
    let own = Model::open("mnist-even")
        .unwrap()
        .explain(&draw.report, proposal)
        .unwrap();
    assert_eq!(told["explained"], serde_json::to_value(&own).unwrap());
    assert_eq!(told["explained"]["accepted"], true);
    assert_eq!(
        told["near"]["nearest"].as_array().unwrap().len(),
        s2m_serve::limits::NEIGHBOURS
    );
    let more = page
        .post("/api/more", &visitor, &json!({ "proposal": proposal }))
        .json();
    let nearest = more["nearest"].as_array().unwrap();
    assert_eq!(nearest.len(), s2m_serve::limits::MORE);
    assert!(nearest.iter().all(|one| one["weighted"] == true
        && one["predicted"].as_f64() >= Some(0.5)
        && one["item"]["picture"].is_string()));
    let far = page.post("/api/explain", &visitor, &json!({ "proposal": u64::MAX }));
    assert_eq!(far.status, 422);
}

#[test]
fn a_query_without_samples_is_refused_in_words() {
    let page = Page::open("mnist-even");
    let visitor = page.enter();
    let (_, (last, told)) = followed(&page.draw(&visitor, &asked("B - A", 8, 0)));
    assert_eq!(last, "refused", "{told}");
    assert!(
        told["why"].as_str().unwrap().starts_with("`B - A`: "),
        "{told}"
    );
    assert!(told["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
    let answer = page.post("/api/download", &visitor, &asked("B - A", 8, 0));
    assert_eq!((answer.status, answer.why().is_empty()), (422, false));
}

#[test]
fn a_bank_gives_its_seed_and_its_proposals() {
    let folder = tempfile::tempdir().unwrap();
    let bank = folder.path().join("bank");
    let request = s2m::mine::Request {
        model: Path::new("gaussians-exact"),
        proposals: NonZeroUsize::new(8000).unwrap(),
        piece: s2m::mine::Piece::default(),
        seed: 21,
        machine: Machine::default(),
        out: &bank,
    };
    s2m::mine::mine(&request, &Silent).unwrap();
    let mut request = s2m_serve::Request::new("gaussians-exact");
    request.bank = Some(&bank);
    let page = Page::of(&request);
    let state = page.state();
    assert_eq!(
        (&state["seed"], &state["proposals"]["wanted"]),
        (&json!(21), &json!(8000))
    );
    let visitor = page.enter();
    // Whatever seed is asked for, it is the bank's.
    let (samples, (_, report)) = followed(&page.draw(&visitor, &asked("A - B", 50, 5)));
    assert_eq!(
        (&report["seed"], report["from_bank"].as_u64() > Some(0)),
        (&json!(21), true)
    );
    let draw = Model::open("gaussians-exact")
        .unwrap()
        .query("A - B")
        .unwrap()
        .bank(&bank)
        .draw(50)
        .unwrap();
    assert_eq!(numbers(&samples), draw.samples.proposals);
    let lines = page.post("/api/check", "", &asked("A - B", 50, 5)).json();
    assert!(
        lines["lines"]["shell"]
            .as_str()
            .unwrap()
            .contains(" --bank "),
        "{lines}"
    );
}

#[test]
fn what_is_typed_is_checked() {
    let page = Page::open("gaussians-exact");
    let check = |query: &str| page.post("/api/check", "", &asked(query, 16, 0)).json();
    assert_eq!(check("A - B")["forced"], json!([true, false]));
    assert_eq!(check("A - B")["conjunction"], true);
    assert_eq!(check("A | B")["forced"], json!([null, null]));
    assert_eq!(check("A | B")["conjunction"], false);
    let wrong = check("A + b");
    assert_eq!(
        (&wrong["why"], &wrong["hint"]),
        (&json!("unknown label `b`"), &json!("did you mean `B`?"))
    );
    assert_eq!(
        check("A - B")["lines"]["shell"],
        "s2m sample gaussians-exact \"A - B\" -n 16 --seed 0 --out samples"
    );
}
