//! Score what is written: the logits of a sample follow from the pixels in its file.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::explain;
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{Request, Wanted, sample};
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use s2m_model::bundle;
use s2m_model::manifest::LayoutName;
use s2m_testkit::pictures::{Kind, SIZE, classifier_weights, pictures};

/// Levels of a PNG file in channels-first order, as the classifier sees them.
fn pixels(path: &Path, bits: u8) -> Vec<f64> {
    let mut decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::IDENTITY);
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let [height, width, channels] = SIZE;
    assert_eq!((info.height as usize, info.width as usize), (height, width));
    let levels: Vec<f64> = match info.bit_depth {
        png::BitDepth::Eight => bytes.iter().map(|&b| f64::from(b)).collect(),
        png::BitDepth::Sixteen => bytes
            .chunks_exact(2)
            .map(|b| f64::from(u16::from_be_bytes([b[0], b[1]])))
            .collect(),
        other => panic!("unexpected depth {other:?}"),
    };
    let top = if bits == 16 { 65_535.0 } else { 255.0 };
    let at =
        |c: usize, y: usize, x: usize| levels[(y * width + x) * channels + c] / top * 2.0 - 1.0;
    let order = (0..channels)
        .flat_map(|c| (0..height).flat_map(move |y| (0..width).map(move |x| (c, y, x))));
    order.map(|(c, y, x)| at(c, y, x)).collect()
}

#[test]
fn logits_follow_from_the_written_pixels() {
    let kinds = [
        Kind {
            layout: LayoutName::Nchw,
            range: [-1.0, 1.0],
            bits: 8,
            conditional: false,
        },
        Kind {
            layout: LayoutName::Nhwc,
            range: [0.0, 255.0],
            bits: 8,
            conditional: false,
        },
        Kind {
            layout: LayoutName::Nhwc,
            range: [0.0, 1.0],
            bits: 16,
            conditional: true,
        },
        Kind {
            layout: LayoutName::Nchw,
            range: [-1.0, 1.0],
            bits: 4,
            conditional: true,
        },
    ];
    let weights = classifier_weights();
    for kind in kinds {
        let root = tempfile::tempdir().unwrap();
        let model = root.path().join("pictures.s2m");
        bundle::write(&model, &pictures(kind)).unwrap();
        let out = root.path().join("out");
        let query = "A | \"B-c\"";
        let settings = SampleSettings {
            seed: Some(1),
            ..SampleSettings::default()
        };
        let request = Request {
            model: &model,
            wanted: Wanted::Query(query),
            samples: NonZeroUsize::new(20).unwrap(),
            settings: settings.clone(),
            machine: Machine::default(),
            bank: None,
            proposal: None,
            out: &out,
            existing: Existing::Keep,
        };
        sample(&request, &Silent).unwrap().remove(0).unwrap();
        let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
        let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
        let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
        for line in table.lines().skip(1).take(6) {
            let fields: Vec<&str> = line.split(',').collect();
            let number: u64 = fields[column("proposal")].parse().unwrap();
            let picture = pixels(&out.join(fields[0]), kind.bits);
            let asked = explain::Request {
                model: &model,
                query,
                proposal: number,
                run: None,
                settings: settings.clone(),
                machine: Machine::default(),
            };
            let explained = explain::explain(&asked, &Silent).unwrap();
            assert_eq!(
                explained.class.as_deref(),
                header.contains(&"class").then(|| fields[column("class")])
            );
            let linear = |row: usize| -> f64 {
                weights[row]
                    .iter()
                    .zip(&picture)
                    .map(|(w, p)| f64::from(*w) * p)
                    .sum()
            };
            let found = [
                explained.class_logits[0],
                explained.class_logits[1],
                explained.real_logit,
            ];
            for (row, value) in found.into_iter().enumerate() {
                let expected = linear(row);
                assert!(
                    (f64::from(value) - expected).abs() < 2e-5,
                    "{kind:?} row {row}: {value} against {expected}"
                );
            }
        }
        assert!(out.join("grid.png").exists());
    }
}
