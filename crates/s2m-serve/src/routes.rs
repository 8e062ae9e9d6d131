//! What is answered at which address. Everything under `/api/` takes and gives JSON, but for drawings and downloads.
//!
//! | address | takes | gives |
//! |---|---|---|
//! | `GET /api/state` | | the model, how far proposals are scored, who is here |
//! | `POST /api/enter` | | a name for the visitor, for the header `s2m-visitor` |
//! | `POST /api/check` | query, n, seed, purity | whether it can be drawn, and the lines that draw it |
//! | `POST /api/predict` | the same | purity, share and calls per sample at each purity |
//! | `GET /api/classes` | | all joint classes |
//! | `POST /api/draw` | the same | a drawing, as server-sent events |
//! | `POST /api/stop` | | |
//! | `POST /api/explain` | proposal | why it was kept, and its neighbours |
//! | `POST /api/more` | proposal | the nearest ones on which the query likely holds |
//! | `POST /api/download` | query, n, seed, purity | a zip file |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use s2m::neighbours::Which;
use s2m::report::Report;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;

use crate::asked::Asked;
use crate::guard::guard;
use crate::proposals::purities;
use crate::refused::{Json, Refused};
use crate::shared::Shared;
use crate::{downloads, drawings, limits, page};

/// The header that carries the visitor's name.
const VISITOR: &str = "s2m-visitor";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pointed {
    proposal: u64,
}

type Answer<T> = Result<T, Refused>;

/// Everything that is answered.
pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/api/state", get(state))
        .route("/api/enter", post(enter))
        .route("/api/check", post(check))
        .route("/api/predict", post(predict))
        .route("/api/classes", get(classes))
        .route("/api/draw", post(draw))
        .route("/api/stop", post(stop))
        .route("/api/explain", post(explain))
        .route("/api/more", post(more))
        .route("/api/download", post(download))
        .fallback(other)
        .layer(from_fn_with_state(Arc::clone(shared), guard))
        .with_state(Arc::clone(shared))
}

/// A file of the page, or nothing.
async fn other(method: Method, uri: Uri) -> Response {
    match page::file(uri.path()).filter(|_| method == Method::GET) {
        Some(file) => file.into_response(),
        None => Refused::new(StatusCode::NOT_FOUND, "there is nothing here").into_response(),
    }
}

/// The body of a request, which has a size and a time.
async fn body<T: DeserializeOwned>(request: Request) -> Answer<(HeaderMap, T)> {
    let (parts, body) = request.into_parts();
    let bytes = timeout(limits::BODY_TIME, to_bytes(body, limits::BODY))
        .await
        .map_err(|_| {
            Refused::new(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long to arrive",
            )
        })?
        .map_err(|_| {
            Refused::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body is too large, or broke off",
            )
        })?;
    let value = serde_json::from_slice(&bytes).map_err(|e| {
        Refused::new(
            StatusCode::BAD_REQUEST,
            &format!("the body is not understood: {e}"),
        )
    })?;
    Ok((parts.headers, value))
}

fn visitor(headers: &HeaderMap) -> Answer<String> {
    let name = headers.get(VISITOR).and_then(|name| name.to_str().ok());
    name.map(str::to_owned).ok_or_else(Refused::stranger)
}

/// Works on a question in a thread that may wait, a few at a time.
async fn question<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    struct Place;
    impl Drop for Place {
        fn drop(&mut self) {
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let before = WAITING.fetch_add(1, Ordering::Relaxed);
    let _place = Place;
    if before >= limits::WAITING_QUESTIONS {
        return Err(Refused::busy());
    }
    let turn = Arc::clone(&shared.questions).acquire_owned().await;
    let shared = Arc::clone(shared);
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work(&shared)
    });
    work.await
        .map_err(|_| Refused::fault("the work broke off"))?
}

async fn state(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let (visitors, drawing) = shared.visitors.count();
    let bundle = shared.model.bundle();
    let manifest = bundle.manifest();
    let output = &manifest.generator.output;
    let labels = bundle
        .labels()
        .names()
        .map(|name| json!({ "name": name, "about": manifest.describe.get(name) }));
    Json(json!({
        "model": manifest.name,
        "labels": labels.collect::<Vec<_>>(),
        "kind": if output.is_picture() { "picture" } else { "point" },
        "shape": output.picture_size().map_or_else(|| output.shape.clone(), |size| size.to_vec()),
        "bank": shared.source.bank().is_some(),
        "seed": shared.source.seed,
        "most": shared.most(),
        "purities": purities().collect::<Vec<_>>(),
        "proposals": shared.proposals.progress(),
        "visitors": visitors,
        "drawing": drawing,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn enter(State(shared): State<Arc<Shared>>) -> Answer<impl IntoResponse> {
    let entered = shared
        .visitors
        .enter()
        .map_err(|e| Refused::fault(&e.to_string()))?;
    let name = entered.ok_or_else(Refused::busy)?;
    Ok(Json(json!({ "visitor": name })))
}

async fn check(State(shared): State<Arc<Shared>>, request: Request) -> Answer<impl IntoResponse> {
    let (_, asked) = body::<Asked>(request).await?;
    let checked = question(&shared, move |shared| {
        let ask = shared.ask(&asked)?;
        let labels = shared.model.bundle().labels().len();
        let forced: Vec<Option<bool>> =
            (0..labels).map(|label| ask.query().forced(label)).collect();
        // Whether the chips say all of it: only a conjunction is what they show.
        let plain = ask.query().conjunction().is_some();
        Ok(json!({ "forced": forced, "conjunction": plain, "lines": shared.source.lines(&asked) }))
    });
    Ok(Json(checked.await?))
}

async fn predict(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let (_, asked) = body::<Asked>(request).await?;
    let predicted = question(&shared, move |shared| {
        let asked = Asked {
            purity: None,
            ..asked
        };
        Ok(shared.proposals.predict(&shared.ask(&asked)?)?)
    });
    Ok(Json(&*predicted.await?).into_response())
}

async fn classes(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    let found = shared.proposals.classes().ok_or_else(|| {
        Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "proposals are still being scored",
        )
    })?;
    Ok(Json(&*found).into_response())
}

async fn draw(State(shared): State<Arc<Shared>>, request: Request) -> Answer<impl IntoResponse> {
    let (headers, asked) = body::<Asked>(request).await?;
    let (visitor, n) = (visitor(&headers)?, asked.n);
    let ask = question(&shared, move |shared| shared.ask(&asked)).await?;
    let body: Body = drawings::begin(&shared, &visitor, ask, n)?;
    Ok(([(CONTENT_TYPE, "text/event-stream")], body))
}

async fn stop(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Answer<impl IntoResponse> {
    shared.visitors.stop(&visitor(&headers)?);
    Ok(Json(json!({})))
}

/// What a visitor has drawn last, in which a proposal is looked for.
fn last(shared: &Shared, headers: &HeaderMap) -> Answer<Arc<Report>> {
    let report = shared.visitors.last(&visitor(headers)?);
    report.ok_or_else(|| Refused::new(StatusCode::CONFLICT, "nothing was drawn to its end yet"))
}

async fn explain(State(shared): State<Arc<Shared>>, request: Request) -> Answer<impl IntoResponse> {
    let (headers, pointed) = body::<Pointed>(request).await?;
    let report = last(&shared, &headers)?;
    let explained = question(&shared, move |shared| {
        let explained = shared.model.explain(&report, pointed.proposal)?;
        let which = (Which::Any, limits::NEIGHBOURS);
        let around = (pointed.proposal, class(shared, explained.class.as_deref()));
        let near = shared
            .proposals
            .near(&shared.model, &report, around, which)?;
        Ok(json!({ "explained": explained, "near": near }))
    });
    Ok(Json(explained.await?))
}

async fn more(State(shared): State<Arc<Shared>>, request: Request) -> Answer<impl IntoResponse> {
    let (headers, pointed) = body::<Pointed>(request).await?;
    let report = last(&shared, &headers)?;
    let near = question(&shared, move |shared| {
        let explained = shared.model.explain(&report, pointed.proposal)?;
        let which = (Which::Likely, limits::MORE);
        let around = (pointed.proposal, class(shared, explained.class.as_deref()));
        Ok(shared
            .proposals
            .near(&shared.model, &report, around, which)?)
    });
    Ok(Json(near.await?))
}

/// The number of a class by its name.
fn class(shared: &Shared, name: Option<&str>) -> Option<u32> {
    let number = shared.model.bundle().labels().find(name?)?;
    Some(number as u32)
}

async fn download(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<impl IntoResponse> {
    let (headers, asked) = body::<Asked>(request).await?;
    let visitor = visitor(&headers)?;
    let asked = question(&shared, move |shared| {
        shared.ask(&asked)?;
        Ok(asked)
    })
    .await?;
    let settings = shared.settings(&asked);
    let body = downloads::begin(&shared, &visitor, asked, settings).await?;
    let name = format!("attachment; filename=\"{}.zip\"", downloads::FOLDER);
    Ok((
        [
            (CONTENT_TYPE, "application/zip".to_owned()),
            (CONTENT_DISPOSITION, name),
        ],
        body,
    ))
}
