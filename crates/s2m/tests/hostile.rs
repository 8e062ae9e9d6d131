//! No mutated manifest or ONNX byte may make our code panic.

use s2m_core::proposals::{Proposals, Purpose};
use s2m_model::bundle::{Bundle, sha256};
use s2m_model::manifest::LayoutName;
use s2m_model::onnx::{Join, join};
use s2m_testkit::exact::{self, Files, ToyGenerator, ToyLabels};
use s2m_testkit::pictures::{Kind, pictures};

const CASES: u64 = 1500;

/// Flips, cuts or repeats some bytes, by fixed random numbers.
fn mutate(bytes: &[u8], case: u64) -> Vec<u8> {
    let numbers = Proposals::new(case);
    let pick = |k: u64, below: usize| (numbers.uniform(Purpose::Class, k) * below as f64) as usize;
    let mut mutated = bytes.to_vec();
    for change in 0..=pick(0, 4) as u64 {
        let at = pick(10 * change + 1, mutated.len().max(1)).min(mutated.len().saturating_sub(1));
        match pick(10 * change + 2, 5) {
            0 => mutated.truncate(at),
            1 if !mutated.is_empty() => mutated[at] ^= 1 << pick(10 * change + 3, 8),
            2 if !mutated.is_empty() => mutated[at] = pick(10 * change + 4, 256) as u8,
            3 => mutated.insert(at, pick(10 * change + 5, 256) as u8),
            _ => {
                let again = mutated[..at].to_vec();
                mutated.extend(again.into_iter().take(40));
            }
        }
    }
    mutated
}

/// Opens files as the program would, and joins the networks if they are accepted.
fn open(files: &Files) -> bool {
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(n, b)| (n.as_str(), b.as_slice()))
        .collect();
    let Ok(bundle) = Bundle::from_files(&files) else {
        return false;
    };
    let outputs = [("class_logits", "a"), ("real_logit", "b")];
    let _ = join(Join {
        generator: &bundle.generator().model,
        classifier: &bundle.classifier().model,
        adapter: bundle.adapter(),
        generator_output: &bundle.manifest().generator.output.name,
        classifier_input: &bundle.manifest().classifier.input.name,
        outputs: &outputs,
    });
    true
}

fn toys() -> [Files; 2] {
    let kind = Kind {
        layout: LayoutName::Nhwc,
        range: [0.0, 1.0],
        bits: 8,
        conditional: true,
    };
    [
        exact::toy(ToyLabels::PerClass, ToyGenerator::Plain),
        pictures(kind),
    ]
}

#[test]
fn mutated_manifests_are_refused_or_read() {
    for toy in toys() {
        assert!(open(&toy), "the toy itself is fine");
        for case in 0..CASES {
            let mut files = toy.clone();
            files[0].1 = mutate(&toy[0].1, case);
            open(&files);
        }
    }
}

/// The hash is put right after the change, as an attacker would.
#[test]
fn mutated_networks_are_refused_or_read() {
    let mut accepted = 0;
    for toy in toys() {
        for case in 0..CASES {
            let mut files = toy.clone();
            let which = 1 + (case % 2) as usize;
            files[which].1 = mutate(&toy[which].1, case);
            let text = String::from_utf8(files[0].1.clone()).unwrap();
            let text = text.replace(&sha256(&toy[which].1), &sha256(&files[which].1));
            files[0].1 = text.into_bytes();
            accepted += usize::from(open(&files));
        }
    }
    assert!(accepted > 50, "some changes go deep: {accepted}");
}
