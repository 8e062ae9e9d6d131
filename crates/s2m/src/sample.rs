//! `s2m sample`: opens the bundle, scores proposals, runs the sampler, writes samples and a report.

use std::num::NonZeroUsize;
use std::path::Path;

use s2m_core::query::Query;
use s2m_core::samplers::reject;
use s2m_core::setting::Setting;
use s2m_model::bundle::{Bundle, sha256};

use crate::adapt::Stored;
use crate::ask;
pub use crate::classes::MAX_JOINT_LABELS;
use crate::draw::{Claim, weigh_first};
use crate::drawing::{Job, Others};
use crate::error::Error;
use crate::models;
use crate::output::{Existing, Kind, Plan, Staging};
use crate::plan::{Kept, Planned};
use crate::pool::Pool;
use crate::presence;
use crate::progress::Progress;
pub use crate::report::Answer;
use crate::report::Report;
use crate::samplers::{Details, SamplerChoice};
use crate::session::{Machine, Session};
use crate::settings::SampleSettings;
use crate::weigh::{Weighed, weigh};
use crate::write::{write_folder, write_joint_summary};

/// File of an interrupted run's logits.
const JOURNAL: &str = "logits";

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Folder or name of the model.
    pub model: &'a Path,
    /// What to draw.
    pub wanted: Wanted<'a>,
    /// Samples wanted, of each query.
    pub samples: NonZeroUsize,
    /// How to draw.
    pub settings: SampleSettings,
    /// What to draw with.
    pub machine: Machine<'a>,
    /// Bank to draw from.
    pub bank: Option<&'a Path>,
    /// Folder of an adapted proposal to draw from.
    pub proposal: Option<&'a Path>,
    /// Output folder.
    pub out: &'a Path,
    /// What to do where it holds something.
    pub existing: Existing,
}

/// What to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Samples of one query.
    Query(&'a str),
    /// Samples of every joint class.
    AllJoint,
}

/// Draws what was asked for; one answer per query, in their order.
pub fn sample(request: &Request<'_>, progress: &dyn Progress) -> Result<Vec<Answer>, Error> {
    let bundle = models::open(request.model)?;
    ask::check(&request.settings, &bundle, request.bank, request.proposal)?;
    let proposal = request.proposal.map(|folder| Stored::open(folder, &bundle));
    let proposal = proposal.transpose()?;
    let queries = queries(request.wanted, &bundle)?;
    // Settings that do not fit a query are said before any work is done.
    let weighed = queries
        .iter()
        .map(|query| weigh(&bundle, query, &request.settings));
    let weighed = weighed.collect::<Result<Vec<Weighed>, Error>>()?;
    let mut session = Session::open(&bundle, &request.machine, &request.settings, request.bank)?;
    let identity = identity(request, &session, proposal.as_ref());
    let folder = models::folder(request.model);
    let inputs = [folder.as_deref(), request.bank, request.proposal];
    let staging = Staging::open(&Plan {
        target: request.out,
        kind: Kind::Samples,
        identity: &identity,
        existing: request.existing,
        inputs: &inputs.into_iter().flatten().collect::<Vec<_>>(),
    })?;
    session.scratch = staging.scratch();
    let answers = if proposal.is_some() || !request.settings.adapt.is_none() {
        draw_all_adapted(
            request,
            &weighed,
            &session,
            proposal.as_ref(),
            &staging,
            progress,
        )
    } else {
        draw_all(request, &weighed, &session, &staging, progress)
    };
    match answers {
        Ok(answers) if answers.iter().any(Result::is_ok) => {
            staging.finish()?;
            Ok(answers)
        }
        Err(error) if error.may_pass() => {
            // Items can be made again from the logits, which took most of the time.
            Err(match staging.keep_journals() {
                None => error,
                Some(kept) => Error::Unfinished {
                    source: Box::new(error),
                    kept,
                },
            })
        }
        other => {
            staging.discard();
            other
        }
    }
}

fn queries(wanted: Wanted<'_>, bundle: &Bundle) -> Result<Vec<Query>, Error> {
    let labels = bundle.labels();
    match wanted {
        Wanted::Query(text) => Ok(vec![Query::parse(text, labels)?]),
        Wanted::AllJoint if labels.len() <= MAX_JOINT_LABELS => {
            Ok(Query::all_joint(labels).collect())
        }
        Wanted::AllJoint => Err(Error::Setting(format!(
            "{} labels have too many joint classes to draw them all; {} works up to {MAX_JOINT_LABELS}",
            labels.len(),
            Setting("all_joint")
        ))),
    }
}

fn draw_all(
    request: &Request<'_>,
    weighed: &[Weighed],
    session: &Session,
    staging: &Staging,
    progress: &dyn Progress,
) -> Result<Vec<Answer>, Error> {
    let journal = staging.journal(JOURNAL);
    let refused = |query: &Query| presence::refuse(&session.bundle, query, &request.settings);
    if let [weighed] = weighed {
        if let Some(refusal) = refused(weighed.query()) {
            return Ok(vec![Err(refusal)]);
        }
        let planned = session.plan(weighed, Some(&journal), progress)?;
        return Ok(vec![answer(
            planned, None, request, session, staging, progress,
        )?]);
    }
    let mut others = Others::default();
    let mut claims: Vec<Claim> = Vec::new();
    let mut pool = session.shared_pool(Some(&journal))?;
    let mut answers = Vec::with_capacity(weighed.len());
    let folders = folder_names(weighed.iter().map(Weighed::query));
    let log_room = room(session, weighed, &mut pool, progress)?;
    for (weighed, folder) in weighed.iter().zip(&folders) {
        if let Some(refusal) = refused(weighed.query()) {
            answers.push(Err(refusal));
            continue;
        }
        let mut target = session.plan_shared(weighed, &mut pool, progress)?;
        target.claims.clone_from(&claims);
        target.log_room = log_room;
        let weighting = target.weighting.clone();
        let classes = (session.bundle.classes().unwrap_or(1) as u64, target.classes);
        let job = Job {
            session,
            pool: &mut pool,
            target,
            samples: request.samples,
            adaptation: None,
            others: Some(&mut others),
        };
        let answer = write_folder(job, folder, staging, progress)?;
        if let Ok(Report {
            details: Details::Reject { log_cap, .. },
            ..
        }) = &answer
        {
            claims.push(Claim {
                log_room,
                weighting,
                log_cap: *log_cap,
                classes,
            });
        }
        answers.push(answer);
    }
    write_joint_summary(staging, weighed, &folders, &answers)?;
    Ok(answers)
}

/// Draws a planned query and writes it.
fn answer(
    mut planned: Planned,
    folder: Option<&str>,
    request: &Request<'_>,
    session: &Session,
    staging: &Staging,
    progress: &dyn Progress,
) -> Result<Answer, Error> {
    let job = Job {
        session,
        pool: &mut planned.pool,
        target: planned.target,
        samples: request.samples,
        adaptation: planned.stored.map(|stored| stored.about.adaptation),
        others: None,
    };
    write_folder(job, folder.unwrap_or_default(), staging, progress)
}

/// Proposals on which it is seen how far joint classes overlap.
const OVERLAP_PILOT: usize = 1 << 13;

/// What the most overlapping proposal seen is multiplied by: a little more may come.
const OVERLAP_SLACK: f64 = 1.05;

/// Log of what the lengths of all joint classes are divided by, so that they fit into 1: the largest sum of
/// `min(w, c)/c` seen. 0 where floors are above one half, since then each proposal has weight for one alone.
fn room(
    session: &Session,
    weighed: &[Weighed],
    pool: &mut Pool,
    progress: &dyn Progress,
) -> Result<f64, Error> {
    let SamplerChoice::Reject { tv } = session.settings.sampler else {
        return Ok(0.0);
    };
    let mut sums = vec![0.0_f64; OVERLAP_PILOT * session.bundle.classes().unwrap_or(1)];
    for weighed in weighed {
        let mut target = session.plan_shared(weighed, pool, progress)?;
        let log_weights = weigh_first(pool, &mut target, OVERLAP_PILOT, progress)?;
        let Some(log_cap) = reject::log_cap_for(&log_weights, tv) else {
            continue;
        };
        for (position, log_weight) in log_weights.iter().enumerate() {
            let number = target.sequence.number(position) as usize;
            if let Some(sum) = sums.get_mut(number) {
                *sum += (log_weight - log_cap).min(0.0).exp();
            }
        }
    }
    let most = sums.into_iter().fold(0.0, f64::max);
    // One class alone has at most 1.
    Ok(if most > 1.0 + 1e-9 {
        (OVERLAP_SLACK * most).ln()
    } else {
        0.0
    })
}

/// Folder of an adapted proposal inside the output.
pub(crate) const PROPOSAL: &str = "proposal";

/// Draws every query from proposals of its own.
fn draw_all_adapted(
    request: &Request<'_>,
    weighed: &[Weighed],
    session: &Session,
    proposal: Option<&Stored>,
    staging: &Staging,
    progress: &dyn Progress,
) -> Result<Vec<Answer>, Error> {
    let alone = weighed.len() == 1;
    let folders = if alone {
        vec![String::new()]
    } else {
        folder_names(weighed.iter().map(Weighed::query))
    };
    let mut answers = Vec::with_capacity(weighed.len());
    for (at, (weighed, folder)) in weighed.iter().zip(&folders).enumerate() {
        let query = weighed.query();
        if let Some(refusal) = presence::refuse(&session.bundle, query, &request.settings) {
            answers.push(Err(refusal));
            continue;
        }
        let own = format!("{folder}{}{PROPOSAL}", if alone { "" } else { "/" });
        // An interrupted run has left what it found; recycled proposals are searched for again.
        let recycles = matches!(request.settings.sampler, SamplerChoice::Resample { .. });
        let left = match proposal {
            None if !recycles => Stored::open(&staging.path(&own), &session.bundle).ok(),
            _ => None,
        };
        let left = left.filter(|left| left.mixture.is_some());
        let kept = match (proposal, &left) {
            (Some(stored), _) => Some(Kept { stored, calls: 0 }),
            (None, Some(stored)) => Some(Kept {
                stored,
                calls: stored.about.adaptation.calls,
            }),
            (None, None) => None,
        };
        let planned = session.plan_adapted(weighed, kept, request.samples, progress);
        let mut planned = match planned {
            Err(Error::Refused(refusal)) => {
                answers.push(Err(*refusal));
                continue;
            }
            planned => planned?,
        };
        if let Some(stored) = &planned.stored {
            stored.write(staging, &own)?;
        }
        let journal = staging.journal(&own_journal(at));
        planned.pool = session.with_journal(planned.pool, Some(&journal))?;
        answers.push(answer(
            planned,
            Some(folder),
            request,
            session,
            staging,
            progress,
        )?);
    }
    if !alone {
        write_joint_summary(staging, weighed, &folders, &answers)?;
    }
    Ok(answers)
}

/// Logits of the proposals of one query among many, until all of them are drawn.
fn own_journal(query: usize) -> String {
    format!("{query}.{JOURNAL}")
}

/// Longest name of a joint class's folder; file systems stop at 255 bytes.
const MAX_FOLDER: usize = 100;

/// A folder for each joint class: its text without spaces and quotes, other characters replaced, and
/// a number behind it where that is too long or taken.
fn folder_names<'q>(queries: impl Iterator<Item = &'q Query>) -> Vec<String> {
    let keep = |c: char| c.is_alphanumeric() || "+-_.".contains(c);
    let mut names: Vec<String> = Vec::new();
    for (at, query) in queries.enumerate() {
        let characters = query
            .text()
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '"');
        let mut plain: String = characters.map(|c| if keep(c) { c } else { '_' }).collect();
        // Not hidden, and never `..`.
        if plain.starts_with('.') {
            plain.insert(0, '_');
        }
        let short: String = plain.chars().take(MAX_FOLDER / 4).collect();
        let fits = plain.len() <= MAX_FOLDER && !names.contains(&plain);
        names.push(if fits { plain } else { format!("{short}~{at}") });
    }
    names
}

/// Everything that decides the result of a request, for recognising an interrupted run of it.
fn identity(request: &Request<'_>, session: &Session, proposal: Option<&Stored>) -> String {
    let settings =
        serde_json::to_string(&request.settings).expect("settings have only plain fields");
    let parts = [
        env!("CARGO_PKG_VERSION").to_owned(),
        session.bundle.hash().to_owned(),
        format!("{:?}", request.wanted),
        request.samples.to_string(),
        session.seed.to_string(),
        settings,
        format!(
            "{:?}, fast {}",
            request.machine.run.device, request.machine.run.fast
        ),
        format!("bank rows {}", session.bank_rows()),
        proposal.map_or(String::new(), |stored| format!("{:?}", stored.about)),
    ];
    sha256(parts.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use s2m_core::labels::Labels;

    use super::*;

    #[test]
    fn folders_are_short_distinct_and_harmless() {
        let folders = |labels: &[&str]| {
            let labels = Labels::new(labels.iter().copied()).unwrap();
            folder_names(Query::all_joint(&labels).collect::<Vec<_>>().iter())
        };
        assert_eq!(folders(&["A", "B"]), ["A-B", "B-A", "A+B"]);
        assert_eq!(folders(&["A b", "Ab"]), ["Ab-Ab", "Ab-Ab~1", "Ab+Ab"]);
        assert_eq!(folders(&["../x/y"]), ["_.._x_y"]);
        assert_eq!(folders(&[".."]), ["_.."]);
        let long = "é".repeat(150);
        assert!(folders(&[&long])[0].len() <= MAX_FOLDER);
    }
}
