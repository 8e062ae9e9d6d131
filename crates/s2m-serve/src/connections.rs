//! Accepts connections, as many as there is room for, and closes those of clients that neither speak nor listen.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Duration, Instant, Sleep, sleep};

use crate::limits;

/// How long to wait where the system has no room for another connection.
const OUT_OF_ROOM: Duration = Duration::from_millis(50);

/// Serves connections until it is told to stop.
pub(crate) async fn accept(listener: TcpListener, router: Router, stop: &Notify) {
    let room = Arc::new(Semaphore::new(limits::CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_TIME)
        .max_buf_size(limits::HEADERS);
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = stop.notified() => return,
        };
        let (Ok(place), Ok((stream, _))) = (place, accepted) else {
            sleep(OUT_OF_ROOM).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(Listening::to(stream)), service);
        tokio::spawn(async move {
            // Whatever goes wrong with a connection is the client's.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// A connection that ends where the client takes nothing for too long.
struct Listening {
    stream: TcpStream,
    patience: Pin<Box<Sleep>>,
    waits: bool,
}

impl Listening {
    fn to(stream: TcpStream) -> Self {
        Self {
            stream,
            patience: Box::pin(sleep(limits::TAKE_TIME)),
            waits: false,
        }
    }

    /// What a write came to, or the end of patience.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.patience
                .as_mut()
                .reset(Instant::now() + limits::TAKE_TIME);
        }
        ready!(self.patience.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Listening {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Listening {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
