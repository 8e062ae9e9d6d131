//! A draw as server-sent events: samples as they are accepted, then what there is to say.
//!
//! | event | says |
//! |---|---|
//! | `waiting` | others are drawing; it is not this one's turn yet |
//! | `progress` | so many proposals are scored |
//! | `accepted` | samples that follow those before |
//! | `withdrawn` | places of samples that a larger cap takes back |
//! | `done` | the report |
//! | `refused` | the query has no samples, and why |
//! | `failed` | something is wrong, and what |

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use s2m::progress::Progress;
use s2m::watch::News;
use s2m::{Ask, Error, Samples};
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::limits;
use crate::pictures::{Fault, Shown, shown};
use crate::pipe::{Pen, pipe};
use crate::refused::Refused;
use crate::shared::Shared;
use crate::visitors::{Begun, Stop};

/// Between two signs of life of one that waits.
const SIGN: Duration = Duration::from_secs(2);

/// Between two words on how far it is.
const BETWEEN: Duration = Duration::from_millis(100);

/// One sample.
#[derive(Debug, Serialize)]
struct Sample<'s> {
    proposal: u64,
    posteriors: &'s [f64],
    log_weight: f64,
    item: Shown,
}

/// Begins a drawing: a body that goes on as long as it does.
pub(crate) fn begin(
    shared: &Arc<Shared>,
    visitor: &str,
    ask: Ask,
    samples: usize,
) -> Result<Body, Refused> {
    admit(shared)?;
    let begun = shared
        .visitors
        .begin(visitor)
        .ok_or_else(Refused::stranger)?;
    let (pen, body) = pipe();
    let (shared, visitor) = (Arc::clone(shared), visitor.to_owned());
    tokio::spawn(async move {
        let Some(turn) = turn(&shared, &begun, Some(&pen)).await else {
            return;
        };
        let work = move || {
            let _turn = turn;
            draw(&shared, (&visitor, &begun), &pen, &ask, samples);
        };
        // A panic would be ours, and shows as an answer that breaks off.
        let _ = tokio::task::spawn_blocking(work).await;
    });
    Ok(body)
}

/// Refuses where too many draw or wait already.
pub(crate) fn admit(shared: &Shared) -> Result<(), Refused> {
    if shared.visitors.count().1 >= limits::WAITING {
        return Err(Refused::busy());
    }
    Ok(())
}

/// The right to draw: the visitor's own last drawing has ended, and few others run. None where nobody waits any longer.
pub(crate) async fn turn(
    shared: &Shared,
    begun: &Begun,
    pen: Option<&Pen>,
) -> Option<[OwnedSemaphorePermit; 2]> {
    let both = async {
        let own = Arc::clone(&begun.turn).acquire_owned().await.ok()?;
        let all = Arc::clone(&shared.drawings).acquire_owned().await.ok()?;
        Some([own, all])
    };
    let left = async {
        match pen {
            Some(pen) => pen.gone().await,
            None => std::future::pending().await,
        }
    };
    let signs = async {
        loop {
            tokio::time::sleep(SIGN / 10).await;
            if let Some(pen) = pen {
                let drawing = shared.visitors.count().1;
                let _ = pen
                    .send(event("waiting", &json!({ "drawing": drawing })))
                    .await;
            }
            tokio::time::sleep(SIGN).await;
        }
    };
    tokio::select! {
        both = both => both,
        () = begun.stop.wait() => None,
        () = left => None,
        () = signs => None,
    }
}

/// One event.
fn event(name: &str, value: &impl Serialize) -> String {
    let value = serde_json::to_string(value).expect("events have only plain fields");
    format!("event: {name}\ndata: {value}\n\n")
}

/// Draws, and tells.
fn draw(shared: &Shared, (visitor, begun): (&str, &Begun), pen: &Pen, ask: &Ask, samples: usize) {
    let watcher = Watcher::new(&begun.stop, Some(pen));
    let mut fault = None;
    let drawn = ask.watch(samples, &watcher, &mut |news| {
        let told = match news {
            News::Accepted(samples) => match accepted(ask, &samples) {
                Ok(text) => pen.write(text),
                Err(error) => {
                    fault = Some(error);
                    return ControlFlow::Break(());
                }
            },
            News::Withdrawn(places) => pen.write(event("withdrawn", &places)),
        };
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let last = match fault.map_or(drawn.map_err(Box::new), Err) {
        Ok(report) => {
            let text = event("done", &report);
            shared.visitors.keep(visitor, begun, report);
            text
        }
        Err(error) => failed(&error, &watcher),
    };
    let _ = pen.write(last);
}

/// The last word on a drawing without samples.
fn failed(error: &Error, watcher: &Watcher<'_>) -> String {
    match error {
        Error::Refused(refusal) => event("refused", &Refused::told(&refusal.to_string())),
        Error::Stopped if watcher.is_late() => {
            let limit = limits::DRAWING_TIME.as_secs();
            event(
                "failed",
                &Refused::told(&format!(
                    "it took more than {limit} seconds\nhint: the command line has no such limit"
                )),
            )
        }
        Error::Stopped => event("stopped", &json!({})),
        error => event("failed", &Refused::told(&error.to_string())),
    }
}

fn accepted(ask: &Ask, samples: &Samples) -> Result<String, Fault> {
    let items = shown(ask.model().bundle(), &samples.items)?;
    let each = items.into_iter().enumerate().map(|(at, item)| Sample {
        proposal: samples.proposals[at],
        posteriors: samples.posteriors_of(at),
        log_weight: samples.log_weights[at],
        item,
    });
    Ok(event("accepted", &each.collect::<Vec<_>>()))
}

/// Tells how far a drawing is, and whether anybody still waits for it.
pub(crate) struct Watcher<'w> {
    stop: &'w Stop,
    pen: Option<&'w Pen>,
    began: Instant,
    told: Mutex<Instant>,
    before: AtomicU64,
}

impl<'w> Watcher<'w> {
    pub(crate) fn new(stop: &'w Stop, pen: Option<&'w Pen>) -> Self {
        let now = Instant::now();
        Self {
            stop,
            pen,
            began: now,
            told: Mutex::new(now),
            before: AtomicU64::new(0),
        }
    }

    /// Whether it has taken longer than it may.
    pub(crate) fn is_late(&self) -> bool {
        self.began.elapsed() > limits::DRAWING_TIME
    }
}

impl Progress for Watcher<'_> {
    fn at(&self, done: u64) {
        let Some(pen) = self.pen else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.before.fetch_max(done, Ordering::Relaxed).max(done);
        if told.elapsed() >= BETWEEN {
            *told = Instant::now();
            pen.write_if_taken(event("progress", &json!({ "scored": most })));
        }
    }

    fn stopped(&self) -> bool {
        self.stop.is() || self.is_late() || self.pen.is_some_and(Pen::is_gone)
    }
}
