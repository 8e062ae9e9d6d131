//! What is served and where: the model, the port, the token.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use s2m::Model;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, Semaphore};

use crate::connections;
use crate::error::Error;
use crate::limits;
use crate::lines::Source;
use crate::proposals::Proposals;
use crate::request::Request;
use crate::routes;
use crate::shared::Shared;
use crate::token::random_name;
use crate::visitors::Visitors;

/// A page that can be served.
pub struct Server {
    listener: TcpListener,
    runtime: Runtime,
    shared: Arc<Shared>,
    stop: Stopper,
}

/// Ends a server from another thread.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Ends it.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

impl Server {
    /// Opens the model and its bank, makes a token, and listens.
    pub fn open(request: &Request<'_>) -> Result<Self, Error> {
        let model = Model::open(request.model)?.with_machine(&request.machine);
        let proposals = Proposals::open(&model, request.bank).map_err(Error::Model)?;
        let listen = |source| Error::Listen {
            port: request.port,
            source,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, request.port));
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(limits::DRAWINGS + limits::QUESTIONS + 4)
            .enable_all()
            .build()
            .map_err(Error::Start)?;
        let shared = Shared {
            source: Source::new(request, proposals.banked_seed()),
            path: request.model.to_owned(),
            token: random_name()?,
            port,
            visitors: Visitors::default(),
            proposals,
            drawings: Arc::new(Semaphore::new(limits::DRAWINGS)),
            questions: Arc::new(Semaphore::new(limits::QUESTIONS)),
            closing: AtomicBool::new(false),
            model,
        };
        Ok(Self {
            listener,
            runtime,
            shared: Arc::new(shared),
            stop: Stopper::default(),
        })
    }

    /// Where the page is, with the token that every request needs. A browser does not send what follows `#`.
    pub fn address(&self) -> String {
        format!(
            "http://127.0.0.1:{}/#{}",
            self.shared.port, self.shared.token
        )
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Serves until it is interrupted from the keyboard, or stopped.
    pub fn run_until_interrupted(self) -> Result<(), Error> {
        let stop = self.stop.clone();
        self.runtime.spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.stop();
            }
        });
        self.run()
    }

    /// Serves until it is stopped. Drawings that run then end, and leave nothing behind.
    pub fn run(self) -> Result<(), Error> {
        let Self {
            listener,
            runtime,
            shared,
            stop,
        } = self;
        let scoring = std::thread::Builder::new().name("proposals".to_owned());
        let scored = Arc::clone(&shared);
        let scoring = scoring
            .spawn(move || scored.proposals.score_all(&scored.closing))
            .map_err(Error::Start)?;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(Error::Start)?;
            let router = routes::router(&shared);
            connections::accept(listener, router, &stop.0).await;
            Ok(())
        });
        shared
            .closing
            .store(true, std::sync::atomic::Ordering::Relaxed);
        shared.visitors.stop_all();
        // Drawings look up between two pieces of work, and take their folders with them.
        runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        let _ = scoring.join();
        served
    }
}
