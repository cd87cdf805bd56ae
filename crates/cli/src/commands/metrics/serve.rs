//! `lazaret metrics serve`: a small HTTP server on this machine. One thread; everything that a client can do to it
//! is bounded in number, size and time.

use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use lazaret_audit::metrics::{Family, Readable, feed::Progress};
use tokio::{
    sync::Semaphore,
    task::{self, LocalSet},
    time::{MissedTickBehavior, interval, sleep},
};

use super::{http, source::Source, ticks};
use crate::{args, exit::Exit, output};

/// So many clients at once; others wait to be accepted.
const CLIENTS: usize = 64;
/// The log is read this often also when nobody asks, so that rotation does not outrun it.
const READING: Duration = Duration::from_secs(2);

pub fn serve(args: &args::Serve) -> anyhow::Result<Exit> {
    let listener = listen(args.listen, args.dangerously_listen_anywhere)?;
    let signals = ticks::ending_signals()?;
    let source = Source::of(&args.count)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = listener.local_addr()?;
    output::data(&format!("listening on http://{address}/metrics\n"));
    let served = LocalSet::new().block_on(&runtime, serve_until_signal(listener, address, source, signals));
    // Not to wait for the thread that waits for a signal.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}

fn listen(address: SocketAddr, anywhere: bool) -> anyhow::Result<TcpListener> {
    if !address.ip().is_loopback() && !anywhere {
        bail!(
            "{address} can be reached by others, and nobody is asked who they are: listen on 127.0.0.1 or [::1] \
             and let a proxy with access control lead there, or say --dangerously-listen-anywhere"
        );
    }
    TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "cannot listen on {address}: the port is in use, perhaps by another `lazaret metrics serve`. \
             Stop that one, or choose another port with --listen {}:PORT (0 takes any that is free)",
            bracketed(address)
        ),
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "cannot listen on {address}: ports below 1024 are for root; choose another with --listen"
        ),
        _ => {
            anyhow::anyhow!("cannot listen on {address}: {error}. Choose another with --listen ADDRESS:PORT")
        }
    })
}

fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// What all clients share.
#[derive(Debug)]
pub struct Station {
    source: RefCell<Source>,
    /// The last failure to read the log, as it was told.
    failure: RefCell<Option<String>>,
    /// Only this machine can reach it.
    pub local: bool,
}

impl Station {
    /// Reads what is new, a part at a time: others are served in between.
    pub async fn catch_up(&self) -> Readable {
        loop {
            let read = self.source.borrow_mut().read();
            match read {
                Ok(Progress::More) => task::yield_now().await,
                Ok(Progress::Done) => {
                    *self.failure.borrow_mut() = None;
                    return Readable::Yes;
                }
                Err(error) => {
                    let sentence = error.to_string();
                    let mut failure = self.failure.borrow_mut();
                    if failure.as_ref() != Some(&sentence) {
                        output::warning(&sentence);
                    }
                    *failure = Some(sentence);
                    return Readable::No;
                }
            }
        }
    }

    pub async fn families(&self) -> Vec<Family> {
        let readable = self.catch_up().await;
        self.source.borrow_mut().told(readable)
    }
}

async fn serve_until_signal(
    listener: TcpListener,
    address: SocketAddr,
    source: Source,
    signals: OwnedFd,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let local = address.ip().is_loopback();
    let station = Rc::new(Station { source: RefCell::new(source), failure: RefCell::new(None), local });
    let reading = Rc::clone(&station);
    task::spawn_local(async move {
        let mut ticks = interval(READING);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            reading.catch_up().await;
        }
    });
    tokio::select! {
        _ = task::spawn_blocking(move || ticks::wait(&signals)) => Ok(()),
        never = accept(listener, station) => never,
    }
}

async fn accept(listener: tokio::net::TcpListener, station: Rc<Station>) -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(CLIENTS));
    loop {
        // Counted before it is accepted: those beyond stay in the kernel's queue, which is bounded as well.
        let place = Arc::clone(&places).acquire_owned().await.context("the places for clients are gone")?;
        match listener.accept().await {
            Ok((stream, _)) => {
                let station = Rc::clone(&station);
                task::spawn_local(async move {
                    // A client that hangs up is its own loss.
                    let _ = http::converse(stream, &station).await;
                    drop(place);
                });
            }
            // Out of descriptors, or it has hung up already.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}
