//! `lazaret mcp`: every server in a sandbox of its own, every call under a policy.

mod explain;
mod import;
mod serve;
mod status;
mod trust;
mod wrap;

use std::{collections::BTreeMap, env, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use lazaret_mcp::{
    config::{self, Config},
    house::{House, Plan},
    screen::Unscreened,
};
use lazaret_runtime::{
    configuration::{self, Configuration},
    state::Directories,
};

use crate::{
    args::{Mcp, McpCommon},
    exit::Exit,
};

pub fn mcp(command: Mcp) -> anyhow::Result<Exit> {
    match command {
        Mcp::Serve(args) => serve::serve(&args),
        Mcp::Wrap(args) => wrap::wrap(args),
        Mcp::Import(args) => import::import(&args),
        Mcp::Explain(args) => explain::explain(&args),
        Mcp::Status(args) => status::status(&args),
        Mcp::Trust(args) => trust::trust(&args),
    }
}

/// Policies are evaluated only where it is known how much stack is left, which it is not on a program's first
/// thread.
fn on_own_thread<T: Send>(body: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    const STACK: usize = 8 << 20;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("lazaret-mcp".to_owned()).stack_size(STACK);
        let running = thread.spawn_scoped(scope, body).context("no thread can be started")?;
        running.join().map_err(|_| anyhow::anyhow!("the proxy failed"))?
    })
}

fn directories() -> Directories {
    Directories::from_environment(|name| env::var_os(name))
}

fn surroundings() -> config::Surroundings {
    config::Surroundings {
        home: env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
        environment: env::vars_os().collect(),
    }
}

/// The file that was named, or the one that `import` writes.
fn config_file(named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    match named {
        Some(file) => Ok(file.clone()),
        None => directories()
            .config
            .map(|config| config.join("mcp-servers.json"))
            .context("neither --config nor HOME is set, so there is no list of servers"),
    }
}

fn load(named: Option<&PathBuf>) -> anyhow::Result<Config> {
    Ok(config::load(&config_file(named)?, &surroundings())?)
}

/// Everything that can be checked before a server starts.
fn open(config: Config, common: &McpCommon, kept: Vec<PathBuf>) -> anyhow::Result<Arc<House>> {
    let directories = directories();
    let rotation = Configuration::load(&configuration::files(directories.config.as_deref()))?.rotation();
    let environment: BTreeMap<_, _> = env::vars_os().collect();
    let plan = Plan {
        config,
        policies: common.policy.clone(),
        audit_log: common.audit.clone(),
        rotation,
        directories,
        environment,
        screen: Arc::new(Unscreened),
        kept,
    };
    Ok(Arc::new(House::open(plan)?))
}
