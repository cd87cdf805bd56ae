//! What a run came to: the report as JSON and the short summary for people.

use std::{fmt::Write as _, path::PathBuf};

use lazaret_policy::violation::Severity;
use lazaret_sandbox::{Enforcement, Layer};
use serde::Serialize;

use crate::{
    meter::{Consequence, Exceeded, Mechanism},
    network::NetworkReport,
    record::Violation,
};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub sandbox_id: String,
    pub level: u8,
    pub enforcement: EnforcementReport,
    pub exit_code: i32,
    /// The signal that ended the command, if one did.
    pub signal: Option<i32>,
    pub outcome: Ending,
    /// Why it ended, when it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub duration_ms: u64,
    pub usage: Usage,
    pub violations: Vec<Violation>,
    /// Where the trace of an escape attempt is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// What became of what it wrote, where that was kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<TransactionReport>,
    /// The tool that has been barred for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<String>,
    /// Limits that were hit.
    pub limits: Vec<Exceeded>,
    /// What went over the network, if anything did or was to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkReport>,
    /// What a person should know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What a transaction came to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub state: TransactionState,
    /// How many names were made, changed or removed.
    pub changes: usize,
    /// In a sentence, for a person.
    pub description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TransactionState {
    /// Nothing was changed.
    Empty,
    Kept,
    Committed,
    Discarded,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnforcementReport {
    pub layers: Vec<&'static str>,
    pub missing: Vec<&'static str>,
    /// What is weaker for want of the missing ones.
    pub weaker: Vec<&'static str>,
    pub landlock_abi: u32,
    /// What holds the limits on everything together.
    pub resources: Mechanism,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    Exited,
    Signaled,
    Timeout,
    Escape,
    Violations,
    /// A resource limit ended it.
    Limit,
    NotExecuted,
    AuditFailed,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub cpu_ms: u64,
    pub max_rss_bytes: u64,
    /// Of everything together, where it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// From storage: what was in memory already is not read.
    pub io_read_bytes: u64,
    /// To be stored: counted when it is written to a file that has a disk behind it.
    pub io_write_bytes: u64,
    /// What went through calls instead, whatever lay behind.
    #[serde(flatten)]
    pub calls: Option<CallUsage>,
}

/// Reading and writing by call: files in memory, pipes and terminals as well.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallUsage {
    pub io_read_calls: u64,
    pub io_read_call_bytes: u64,
    pub io_write_calls: u64,
    pub io_write_call_bytes: u64,
}

impl EnforcementReport {
    pub fn new(enforcement: &Enforcement, needed: &[Layer], resources: Mechanism) -> Self {
        let missing = enforcement.missing(needed);
        EnforcementReport {
            layers: enforcement.layers().map(Layer::name).collect(),
            missing: missing.iter().map(|layer| layer.name()).collect(),
            weaker: missing.iter().map(|layer| layer.weaker_without()).collect(),
            landlock_abi: enforcement.landlock_abi,
            resources,
        }
    }
}

/// The most lines that a summary shows one by one.
const LINES: usize = 8;

impl Report {
    /// The block on standard error, empty when there is nothing to tell.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let told: Vec<&Violation> =
            self.violations.iter().filter(|violation| violation.severity >= Severity::Medium).collect();
        let quiet = self.violations.len() - told.len();
        if let Some(reason) = &self.reason {
            let _ = writeln!(text, "lazaret: {reason}");
        }
        if let Some(tool) = self.quarantined.as_deref().map(printable) {
            let _ = writeln!(
                text,
                "lazaret: {tool} is quarantined; after a look at {} `lazaret tool release {tool}` lets it run again",
                self.trace.as_ref().map_or_else(|| "the log".to_owned(), |path| path.display().to_string()),
            );
        }
        if let Some(transaction) = self.transaction.as_ref().filter(|it| it.state != TransactionState::Empty)
        {
            let _ = writeln!(text, "lazaret: {}", transaction.description);
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "lazaret: {remark}");
        }
        for exceeded in self.limits.iter().filter(|limit| limit.consequence == Consequence::Refused) {
            let _ = writeln!(text, "lazaret: limit reached: {}", exceeded.description);
        }
        if told.is_empty() {
            return text;
        }
        let _ = writeln!(text, "lazaret: denied in this sandbox ({}):", self.sandbox_id);
        for violation in told.iter().take(LINES) {
            let times =
                if violation.count > 1 { format!(", {} times", violation.count) } else { String::new() };
            let _ = writeln!(
                text,
                "  - {}{} [{}]{times}\n    {}",
                violation.description,
                by(&violation.process),
                violation.layer,
                violation.remedy
            );
        }
        if told.len() > LINES {
            let _ = writeln!(text, "  … and {} more, see the audit log", told.len() - LINES);
        }
        if quiet > 0 {
            let _ = writeln!(text, "  ({quiet} harmless probes are in the audit log only)");
        }
        text
    }
}

fn by(process: &str) -> String {
    if process.is_empty() { String::new() } else { format!(" by {}", printable(process)) }
}

/// Names chosen by the command must not play tricks on the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control()
                || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
            {
                '?'
            } else {
                c
            }
        })
        .collect()
}
