//! The second wall: the same filesystem rules once more, as a Landlock domain that also keeps signals and
//! abstract sockets inside.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::spec::{LandlockAccess, LandlockRule};

/// The newest ABI whose rights are asked for; older kernels give less and say so.
const ABI_WANTED: ABI = ABI::V6;

/// What came of it.
pub enum Outcome {
    /// In force, with this ABI.
    InForce(u32),
    NotAvailable,
}

/// Restricts this process and all that it will start. Paths that do not exist are passed over: what is not
/// there needs no permission.
pub fn restrict(rules: &[LandlockRule]) -> Result<Outcome, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    for rule in rules {
        let Ok(path) = PathFd::new(&rule.path) else { continue };
        let mut rights = rights(rule.access);
        if !rule.path.is_dir() {
            rights &= AccessFs::from_file(ABI_WANTED);
        }
        ruleset = ruleset.add_rule(PathBeneath::new(path, rights))?;
    }
    // The caller's redirections (`2> log`) stay usable by name (`/dev/stderr`), and no further than they
    // were opened.
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let Ok(stat) = rustix::fs::fstat(stream) else { continue };
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        let Ok(flags) = rustix::fs::fcntl_getfl(stream) else { continue };
        // A file in memory has no place in any hierarchy (EBADFD), and needs none.
        let in_memory = stat.st_nlink == 0 && rustix::fs::fcntl_get_seals(stream).is_ok();
        if regular && !in_memory {
            let rights = match flags & rustix::fs::OFlags::ACCMODE {
                rustix::fs::OFlags::RDONLY => AccessFs::ReadFile.into(),
                rustix::fs::OFlags::WRONLY => AccessFs::WriteFile | AccessFs::Truncate,
                _ => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
            };
            ruleset = ruleset.add_rule(PathBeneath::new(stream, rights))?;
        }
    }
    let status = ruleset.restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Outcome::NotAvailable,
        (_, LandlockStatus::Available { effective_abi, kernel_abi }) => {
            Outcome::InForce(kernel_abi.unwrap_or(effective_abi as i32) as u32)
        }
        _ => Outcome::NotAvailable,
    })
}

fn rights(access: LandlockAccess) -> BitFlags<AccessFs> {
    let write =
        AccessFs::from_all(ABI_WANTED) & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    match access {
        LandlockAccess::List => AccessFs::ReadDir.into(),
        LandlockAccess::Read => read,
        LandlockAccess::ReadExecute => read | AccessFs::Execute,
        LandlockAccess::Write => write,
        LandlockAccess::WriteExecute => write | AccessFs::Execute,
        LandlockAccess::Execute => AccessFs::Execute | AccessFs::ReadFile,
        LandlockAccess::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
    }
}
