//! The body of an answer that another thread writes, piece by piece, as fast as the client takes it and no faster.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use crate::limits;

/// Pieces that wait for the client.
const PIECES: usize = 8;

/// The end that is written to.
#[derive(Clone)]
pub(crate) struct Pen {
    pieces: Sender<io::Result<Bytes>>,
    runtime: Handle,
}

/// The client has gone, or takes nothing any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

struct Pipe(Receiver<io::Result<Bytes>>);

/// A body and what it is written with; within the runtime.
pub(crate) fn pipe() -> (Pen, Body) {
    let (pieces, taken) = channel(PIECES);
    let runtime = Handle::current();
    (Pen { pieces, runtime }, Body::new(Pipe(taken)))
}

impl Pen {
    /// Writes a piece, from a thread that may wait.
    pub(crate) fn write(&self, piece: impl Into<Bytes>) -> Result<(), Gone> {
        self.runtime.block_on(self.send(piece.into()))
    }

    /// Writes a piece.
    pub(crate) async fn send(&self, piece: impl Into<Bytes>) -> Result<(), Gone> {
        let sent = timeout(limits::TAKE_TIME, self.pieces.send(Ok(piece.into()))).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }

    /// Writes a piece if there is room for it now, and leaves it out otherwise.
    pub(crate) fn write_if_taken(&self, piece: impl Into<Bytes>) {
        let _ = self.pieces.try_send(Ok(piece.into()));
    }

    /// Ends the answer in the middle, so that the client sees that something is missing.
    pub(crate) fn break_off(&self) {
        let _ = self.pieces.try_send(Err(io::ErrorKind::BrokenPipe.into()));
    }

    /// Whether the client has gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.pieces.is_closed()
    }

    /// Waits until the client has gone.
    pub(crate) async fn gone(&self) {
        self.pieces.closed().await;
    }
}

impl HttpBody for Pipe {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever draws is free again once a client has taken nothing for so long.
    #[test]
    fn a_client_that_takes_nothing_is_gone() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (pen, body) = {
            let _inside = runtime.enter();
            pipe()
        };
        let began = std::time::Instant::now();
        let written = (0..100).take_while(|_| pen.write("piece").is_ok()).count();
        assert_eq!(written, PIECES);
        assert!(began.elapsed() >= limits::TAKE_TIME);
        assert!(!pen.is_gone());
        drop(body);
        assert!(pen.is_gone());
        assert_eq!(pen.write("piece"), Err(Gone));
    }
}
