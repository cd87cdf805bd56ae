//! `lazaret mcp wrap -- CMD`: the proxy for a single server, without a file.

use std::path::PathBuf;

use lazaret_mcp::config::{
    self, Config, Custom, Definition, Domains, Local, Network, Options, Sandbox, Server, ServerName,
};

use crate::{args::McpWrap, exit::Exit};

pub fn wrap(args: McpWrap) -> anyhow::Result<Exit> {
    let directory = std::env::current_dir()?;
    let mut words = args.command.iter().map(|word| word.to_string_lossy().into_owned());
    let command = words.next().unwrap_or_default();
    let name = args.name.clone().unwrap_or_else(|| {
        PathBuf::from(&command)
            .file_name()
            .map_or_else(|| "server".to_owned(), |name| name.to_string_lossy().into_owned())
    });
    let mut custom = Custom::default();
    custom.filesystem.allow_write =
        args.allow_write.iter().map(|path| directory.join(path).to_string_lossy().into_owned()).collect();
    custom.filesystem.deny_read =
        args.deny_read.iter().map(|path| directory.join(path).to_string_lossy().into_owned()).collect();
    if !args.allow.is_empty() {
        custom.network = Network::Domains(Domains { allowed: args.allow.clone(), ..Domains::default() });
    }
    let mut local = Local {
        command,
        args: words.collect(),
        env: config::Variables::default(),
        directory: None,
        inherit_env: config::InheritEnv::Usual,
        sandbox: Sandbox::Custom(Box::new(custom)),
    };
    for setting in &args.env {
        match setting.split_once('=') {
            Some((name, value)) => {
                local.env.0.insert(name.to_owned(), value.to_owned());
            }
            None => {
                let value = std::env::var(setting)
                    .map_err(|_| anyhow::anyhow!("--env {setting}: the variable is not set"))?;
                local.env.0.insert(setting.clone(), value);
            }
        }
    }
    let options = Options {
        sandbox_policy: if args.warn { config::SandboxPolicy::Warn } else { config::SandboxPolicy::Enforce },
        ..Options::default()
    };
    let limit = usize::try_from(options.limits.max_message_bytes).unwrap_or(usize::MAX);
    let server = Server {
        name: ServerName::new(&name)?,
        limits: options.limits,
        definition: Definition::Local(Box::new(local)),
    };
    // No such file is read: it is the name under which the tools are pinned, and where relative paths begin.
    let file = directory.join(format!(".lazaret-wrap-{name}"));
    let config = Config { file, options, servers: vec![server], notes: Vec::new() };
    let house = super::open(config, &args.common, Vec::new())?;
    super::serve::on_stdio(&house, &args.common, limit)
}
