//! `lazaret metrics …` as it can be typed.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use lazaret_policy::units::Millis;

#[derive(Debug, Subcommand)]
pub enum Metrics {
    /// Serve them over HTTP, for Prometheus to fetch
    Serve(Serve),
    /// Print them once
    Print(Print),
    /// Write them to a file, for the textfile collector of node_exporter
    Write(Write),
    /// Send them to an OpenTelemetry collector
    #[cfg(feature = "otlp")]
    Push(Push),
}

/// What is counted, and how much of it is told.
#[derive(Debug, ClapArgs)]
pub struct Count {
    /// The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Tell so many of the newest sandboxes one by one; at most 100
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub per_sandbox: u8,
}

/// GET /metrics answers in Prometheus' text format, or in OpenMetrics if that is asked for; GET /healthz says
/// whether the log can be read. Ends on SIGTERM or SIGINT.
#[derive(Debug, ClapArgs)]
pub struct Serve {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9469", value_parser = address)]
    pub listen: SocketAddr,
    /// Allow an address that others than this machine can reach. Nobody is asked who they are
    #[arg(long)]
    pub dangerously_listen_anywhere: bool,
    #[command(flatten)]
    pub count: Count,
}

#[derive(Debug, ClapArgs)]
pub struct Print {
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub count: Count,
}

/// The file is replaced as a whole, so that nobody reads half of it.
#[derive(Debug, ClapArgs)]
pub struct Write {
    /// The file; node_exporter reads those that end in .prom
    #[arg(long, value_name = "FILE")]
    pub textfile: PathBuf,
    /// Write again and again, after this time (milliseconds, or with s, m, h)
    #[arg(long, value_name = "TIME")]
    pub every: Option<Millis>,
    #[command(flatten)]
    pub count: Count,
}

/// OTLP over HTTP, as JSON, without TLS: for a collector on this machine.
#[cfg(feature = "otlp")]
#[derive(Debug, ClapArgs)]
pub struct Push {
    /// The collector: http://ADDRESS:PORT, or with a path that ends in /v1/metrics
    #[arg(long, value_name = "URL")]
    pub otlp: String,
    /// Send again and again, after this time (milliseconds, or with s, m, h)
    #[arg(long, value_name = "TIME")]
    pub every: Option<Millis>,
    /// Allow an address that is not of this machine. Everybody on the way can read and change what is sent
    #[arg(long)]
    pub dangerously_send_anywhere: bool,
    #[command(flatten)]
    pub count: Count,
}

/// No names but this one are looked up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| "not ADDRESS:PORT, such as 127.0.0.1:9469 or [::1]:9469".to_owned())
}
