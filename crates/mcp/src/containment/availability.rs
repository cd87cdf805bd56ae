//! Whether this host can build a sandbox, and what TB0 has said when it cannot.

use lazaret_runtime::doctor::Findings;

use crate::config::SandboxPolicy;

/// Asked once, for all servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    Available,
    /// Another operating system.
    Unsupported {
        platform: String,
    },
    /// Layers are missing, each with its reason; and what would mend that.
    Incomplete {
        missing: Vec<String>,
        fixes: Vec<String>,
    },
}

impl Availability {
    /// Everything that a full sandbox needs, or what is missing.
    pub fn of(findings: &Findings) -> Availability {
        if findings.level2 {
            return Availability::Available;
        }
        let missing = findings.layers.iter().filter(|layer| !layer.available);
        let mut fixes: Vec<String> = Vec::new();
        let mut names = Vec::new();
        for layer in missing {
            // The one reason is told with the first layer that it closes.
            let fix = layer.fix.clone().unwrap_or_default();
            let known = fixes.contains(&fix);
            names.push(match &layer.reason {
                Some(reason) if !known => format!("{} ({reason})", layer.layer),
                _ => layer.layer.to_owned(),
            });
            if !known && !fix.is_empty() {
                fixes.push(fix);
            }
        }
        Availability::Incomplete { missing: names, fixes }
    }

    /// With `enforce` nothing starts half-sandboxed: why the proxy does not start at all, if it does not.
    pub fn refusal(&self, policy: SandboxPolicy) -> Option<String> {
        match (self, policy) {
            (Availability::Available, _) | (_, SandboxPolicy::Warn) => None,
            (Availability::Unsupported { platform }, SandboxPolicy::Enforce) => Some(format!(
                "[sandbox] FATAL: sandboxPolicy is \"enforce\" but OS-level sandboxing is not supported on this \
                 platform ({platform}). Supported: Linux."
            )),
            (Availability::Incomplete { missing, fixes }, SandboxPolicy::Enforce) => {
                let missing: String = missing.iter().map(|layer| format!("  - {layer}\n")).collect();
                Some(format!(
                    "[sandbox] FATAL: sandboxPolicy is \"enforce\" but required dependencies are missing:\n\
                     {missing}{}",
                    advice("", fixes)
                ))
            }
        }
    }

    /// With `warn`: what is logged before servers start without one.
    pub fn warning(&self) -> Option<String> {
        let (missing, fixes) = match self {
            Availability::Available => return None,
            Availability::Unsupported { platform } => (format!("platform: {platform}"), [].as_slice()),
            Availability::Incomplete { missing, fixes } => {
                let names = missing.iter().map(|layer| layer.split(' ').next().unwrap_or(layer));
                (format!("missing: {}", names.collect::<Vec<_>>().join(", ")), fixes.as_slice())
            }
        };
        Some(format!(
            "[sandbox] WARNING: OS-level sandboxing unavailable ({missing}).\n  \
             Servers that require sandboxing will run without OS containment.\n  \
             Policy engine remains active. Set SANDBOX_POLICY=enforce to require sandboxing.\n  {}",
            advice("Install dependencies: ", fixes)
        ))
    }
}

/// In one line, in place of TB0's `apt-get`: nothing has to be installed here.
fn advice(prefix: &str, fixes: &[String]) -> String {
    match fixes {
        [] => format!("{prefix}`lazaret doctor` says what this host can enforce."),
        fixes => format!("{prefix}{} (`lazaret doctor` says more).", fixes.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::doctor::Finding;

    use super::*;

    fn incomplete() -> Availability {
        let missing = vec!["userns (it is closed)".to_owned(), "mountns".to_owned()];
        Availability::Incomplete { missing, fixes: vec!["sudo sysctl -w x=1".to_owned()] }
    }

    #[test]
    fn enforce_on_another_platform_is_fatal_in_tb0s_words() {
        let windows = Availability::Unsupported { platform: "win32".to_owned() };
        assert_eq!(
            windows.refusal(SandboxPolicy::Enforce).unwrap(),
            "[sandbox] FATAL: sandboxPolicy is \"enforce\" but OS-level sandboxing is not supported on this platform \
             (win32). Supported: Linux."
        );
        assert_eq!(windows.refusal(SandboxPolicy::Warn), None);
    }

    #[test]
    fn enforce_with_something_missing_is_fatal_in_tb0s_words_with_our_advice() {
        assert_eq!(
            incomplete().refusal(SandboxPolicy::Enforce).unwrap(),
            "[sandbox] FATAL: sandboxPolicy is \"enforce\" but required dependencies are missing:\n  \
             - userns (it is closed)\n  - mountns\nsudo sysctl -w x=1 (`lazaret doctor` says more)."
        );
    }

    #[test]
    fn the_warning_has_tb0s_four_lines() {
        assert_eq!(
            incomplete().warning().unwrap(),
            "[sandbox] WARNING: OS-level sandboxing unavailable (missing: userns, mountns).\n  \
             Servers that require sandboxing will run without OS containment.\n  \
             Policy engine remains active. Set SANDBOX_POLICY=enforce to require sandboxing.\n  \
             Install dependencies: sudo sysctl -w x=1 (`lazaret doctor` says more)."
        );
        assert_eq!(Availability::Available.warning(), None);
        assert_eq!(Availability::Available.refusal(SandboxPolicy::Enforce), None);
    }

    #[test]
    fn a_reason_that_closes_several_layers_is_told_once() {
        let layer = |layer: &'static str, available: bool| Finding {
            layer,
            available,
            reason: (!available).then(|| "closed".to_owned()),
            fix: (!available).then(|| "open it".to_owned()),
            weaker: None,
        };
        let mut findings = Findings {
            level2: false,
            level1: false,
            kernel: String::new(),
            landlock_abi: 0,
            uid: 1,
            layers: vec![layer("userns", false), layer("netns", false), layer("seccomp", true)],
        };
        let missing = vec!["userns (closed)".to_owned(), "netns".to_owned()];
        assert_eq!(
            Availability::of(&findings),
            Availability::Incomplete { missing, fixes: vec!["open it".to_owned()] }
        );
        // What level 2 can do without (a control group, an overlay) is no reason.
        findings.level2 = true;
        assert_eq!(Availability::of(&findings), Availability::Available);
    }
}
