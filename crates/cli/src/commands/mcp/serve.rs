//! `lazaret mcp serve`: one MCP server for the client, on standard input and output or over HTTP.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use lazaret_mcp::{
    house::House,
    http,
    link::Front,
    proxy::{self, Stop},
    stdio,
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    args::{McpCommon, McpServe},
    exit::Exit,
    output,
};

pub fn serve(args: &McpServe) -> anyhow::Result<Exit> {
    let config = super::load(args.config.as_ref())?;
    // What a client sends is bounded as what servers send.
    let limit = usize::try_from(config.options.limits.max_message_bytes).unwrap_or(usize::MAX);
    match args.http {
        None => on_stdio(&super::open(config, &args.common, Vec::new())?, &args.common, limit),
        Some(address) => {
            let token_file = token_file(args)?;
            let house = super::open(config, &args.common, vec![token_file.clone()])?;
            over_http(&house, args, address, &token_file, limit)
        }
    }
}

/// Serves whoever started this program, until it closes its side.
pub fn on_stdio(house: &Arc<House>, common: &McpCommon, limit: usize) -> anyhow::Result<Exit> {
    let session = house.session(common.session.as_deref())?;
    run(async move |stop| {
        let (front, done) = proxy::connect(house, session, stop)?;
        stdio::serve(front, limit).await.context("standard input and output cannot be used")?;
        done.await.context("the proxy failed")?;
        Ok(())
    })
}

fn token_file(args: &McpServe) -> anyhow::Result<PathBuf> {
    match (&args.token_file, super::directories().state) {
        (Some(file), _) => Ok(file.clone()),
        (None, Some(state)) => Ok(state.join("mcp-token")),
        (None, None) => anyhow::bail!("--token-file is needed: there is no place for our own files"),
    }
}

fn over_http(
    house: &Arc<House>,
    args: &McpServe,
    address: SocketAddr,
    token_file: &Path,
    limit: usize,
) -> anyhow::Result<Exit> {
    let token = http::token::read_or_create(token_file)?;
    let config = http::Config {
        address,
        max_body: limit,
        allowed_origins: args.allow_origin.clone(),
        ..http::Config::new(token)
    };
    run(async move |stop| {
        let bound = http::bind(&config)?;
        output::message(&format!("listening on {}", bound.url()));
        output::message(&format!("the token is in {}", token_file.display()));
        let proxies: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let (kept, house, directory) = (Arc::clone(&proxies), Arc::clone(house), args.common.session.clone());
        let proxy_stop = stop.clone();
        let connect = move |_| {
            let connected = house
                .session(directory.as_deref())
                .and_then(|session| proxy::connect(&house, session, proxy_stop.clone()));
            match connected {
                Ok((front, done)) => {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.retain(|done| !done.is_finished());
                    kept.push(done);
                    front
                }
                Err(error) => {
                    output::error(&format!("no session can begin: {error}"));
                    Front::over()
                }
            }
        };
        let mut stop = stop;
        let shutdown = async move { while *stop.borrow() == Stop::No && stop.changed().await.is_ok() {} };
        bound.serve(connect, shutdown).await?;
        let rest = std::mem::take(&mut *proxies.lock().unwrap_or_else(PoisonError::into_inner));
        for done in rest {
            let _ = tokio::time::timeout(Duration::from_secs(10), done).await;
        }
        Ok(())
    })
}

/// One thread for everything, and a word to stop at the usual signals.
fn run(body: impl AsyncFnOnce(watch::Receiver<Stop>) -> anyhow::Result<()> + Send) -> anyhow::Result<Exit> {
    const SIGNALS: [i32; 3] = [1, 2, 15];
    // Every thread that is started from here on leaves them to this descriptor.
    let signals = lazaret_runtime::signals_as_descriptor(&SIGNALS).context("signals cannot be waited for")?;
    super::on_own_thread(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(8)
            .thread_stack_size(512 << 10)
            .build()
            .context("nothing can be waited for")?;
        runtime.block_on(async {
            let (stop, stopped) = watch::channel(Stop::No);
            // Any descriptor that can be waited for and read will do.
            let signals = tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(signals)?;
            let listening = tokio::spawn(async move {
                let _ = signals.readable().await;
                let _ = stop.send(Stop::Yes);
                std::future::pending::<()>().await;
            });
            let outcome = body(stopped).await;
            listening.abort();
            outcome
        })
    })?;
    Ok(Exit::Ok)
}
