//! How answers and refusals are written: JSON, with a status, a message and its hint.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use s2m::Error;
use serde::Serialize;

use crate::pictures::Fault;

/// Why there is no answer, in words.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    status: StatusCode,
    told: Told,
}

/// A message and its hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Told {
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, message: &str) -> Self {
        Self {
            status,
            told: Self::told(message),
        }
    }

    /// A message of ours, whose hint stands on a line of its own.
    pub(crate) fn told(message: &str) -> Told {
        let (why, hint) = match message.split_once("\nhint: ") {
            Some((why, hint)) => (why, Some(hint.to_owned())),
            None => (message, None),
        };
        Told {
            why: why.to_owned(),
            hint,
        }
    }

    /// What keeps a request from being drawn.
    pub(crate) fn of(error: &Error) -> Self {
        let status = match error {
            Error::Core(_) | Error::Setting(_) | Error::Refused(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Error::Stopped => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, &error.to_string())
    }

    pub(crate) fn fault(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    pub(crate) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests wait already\nhint: try again in a moment",
        )
    }

    pub(crate) fn stranger() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "this visitor is not known\nhint: load the page again",
        )
    }

    pub(crate) fn stopped() -> Self {
        Self::new(StatusCode::CONFLICT, "stopped before the end")
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::of(&fault)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(self.told)).into_response()
    }
}

/// An answer in JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let text = serde_json::to_string(&self.0).expect("answers have only plain fields");
        ([(CONTENT_TYPE, "application/json")], text).into_response()
    }
}
