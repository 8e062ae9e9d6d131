//! Every limit of the server, with its reason. The page is told those that it needs.

use std::time::Duration;

/// Samples of one drawing or download; more are not looked at on a page, and the command line is always shown.
pub const SAMPLES: usize = 2000;

/// Numbers in all items of one drawing: what a browser holds without trouble.
pub const NUMBERS: usize = 1 << 25;

/// Bytes of a query: far more than anybody types, far less than a parser minds.
pub const QUERY: usize = 1000;

/// Bytes of a request's body.
pub const BODY: usize = 8 << 10;

/// Bytes of a request's first line and headers.
pub const HEADERS: usize = 16 << 10;

/// Largest seed: a page counts in 64-bit floats.
pub const SEED: u64 = (1 << 53) - 1;

/// Connections at a time. A browser opens up to six.
pub const CONNECTIONS: usize = 512;

/// Visitors that are remembered; the longest silent one without a drawing makes room for another.
pub const VISITORS: usize = 256;

/// Drawings that run at a time; each uses all cores.
pub const DRAWINGS: usize = 2;

/// Drawings that wait for their turn.
pub const WAITING: usize = 128;

/// Other questions that are worked on at a time.
pub const QUESTIONS: usize = 2;

/// Other questions that wait for their turn.
pub const WAITING_QUESTIONS: usize = 256;

/// How long one drawing may take.
pub const DRAWING_TIME: Duration = Duration::from_mins(10);

/// How long a request's first line and headers may take to arrive, and how long a connection may be idle.
pub const HEADER_TIME: Duration = Duration::from_secs(10);

/// How long a body may take to arrive.
pub const BODY_TIME: Duration = Duration::from_secs(5);

/// How long a client may take nothing of an answer.
pub const TAKE_TIME: Duration = Duration::from_secs(20);

/// Scored proposals in memory, where there is no bank.
pub const PROPOSALS: usize = 1 << 16;

/// Proposals of a bank that are looked at.
pub const BANKED: usize = 1 << 17;

/// Joint classes that are listed.
pub const CLASSES: usize = 64;

/// Predictions that are remembered.
pub const PREDICTIONS: usize = 128;

/// Neighbours of a sample that are shown.
pub const NEIGHBOURS: usize = 8;

/// Items of "more like this".
pub const MORE: usize = 24;
