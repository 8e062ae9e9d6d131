//! Calibrates the bundles of a run; how is [`s2m_calibrate`]'s business.

use anyhow::{Context as _, Result};
use s2m_calibrate::found::Found;
use s2m_calibrate::{Engine, Subject, calibrate};
use s2m_data::recipe::Loaded;
use s2m_model::bundle::Bundle;
use s2m_model::manifest::Provenance;
use s2m_runs::ClassifierSettings;
use s2m_runs::folder::HELD_OUT;
use s2m_show::progress::Silent;
use serde_json::json;

use crate::bundle;
use crate::device::Machine;
use crate::folder::RunFolder;
use crate::replica::Replica;

/// Calibrates the bundle of every replica in place, and keeps what was found in `held-out.json` too.
pub fn bundles(
    folder: &RunFolder,
    (loaded, replicas): (&[Loaded], &[Replica]),
    provenance: &dyn Fn(&Replica) -> Result<Provenance>,
    settings: &ClassifierSettings,
    machine: &Machine,
) -> Result<()> {
    let engine = Engine {
        runtime: &machine.runtime,
        run: machine.run,
    };
    let mut found = Vec::new();
    for replica in replicas {
        let path = folder.join(&bundle::name(replica));
        let opened = Bundle::open(&path)?;
        let subject = Subject {
            bundle: &opened,
            data: &loaded[replica.data],
            audit: None,
        };
        let calibrated = calibrate(subject, &settings.calibration, &engine, &Silent)
            .with_context(|| format!("calibration of {}", replica.title()))?;
        let mut manifest = calibrated.manifest(opened.manifest());
        manifest.paper.clone_from(&settings.paper);
        manifest.provenance = provenance(replica)?;
        calibrated.write(&path, &manifest)?;
        say(replica, &calibrated.found);
        found.push(json!({ "replica": replica.title(), "found": calibrated.found }));
    }
    folder.write_json(HELD_OUT, &found)
}

/// The figures that tell at a glance whether a classifier is of use.
#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn say(replica: &Replica, found: &Found) {
    eprintln!(
        "{}: real against generated AUC {:.3} on held-out items, corrected by {}; class temperature {:.2}; mean largest class probability {:.3} on real, {:.3} on generated items",
        replica.title(),
        found.real.auc,
        found.real.correction,
        found.class.temperature,
        found.class_on_real.mean_largest_probability,
        found.class_on_generated.mean_largest_probability,
    );
    for warning in &found.warnings {
        eprintln!("  warning: {warning}");
    }
    for (query, joint) in &found.joint_classes {
        let Some(shares) = joint.effective_share else {
            continue;
        };
        let [used, without, likelihood] =
            [shares.used, shares.without_real, shares.by_likelihood].map(|share| 100.0 * share);
        eprintln!(
            "  {query}: effective share {used:.2} % (without the discriminator {without:.2} %, by its likelihood {likelihood:.2} %)"
        );
    }
}
