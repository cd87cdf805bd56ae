//! Can a level-2 sandbox be made here, now? Asked before anything is started, by trying it: in a few milliseconds,
//! and in words that a person can act on. What `doctor` finds out at leisure is more.

use lazaret_policy::schema::Level;
use lazaret_sandbox::{
    Layer,
    linux::{
        cgroup::Cgroup,
        launch::{Birth, LaunchError},
        launcher::Launcher,
    },
};
use serde::Serialize;

use crate::{doctor, lower};

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Availability {
    /// Everything that level 2 needs is there.
    pub supported: bool,
    /// Why it is not, each with what would mend it.
    pub errors: Vec<String>,
    /// What is weaker than it could be, although everything that is needed is there.
    pub warnings: Vec<String>,
}

/// Builds a sandbox through the launcher, asks it what is in force, and lets nothing run in it.
pub fn availability(launcher: &Launcher) -> Availability {
    availability_by(Birth::By(launcher))
}

/// As [`availability`], for a program that has no launcher and no other threads.
pub fn availability_here() -> Availability {
    availability_by(Birth::Here)
}

fn availability_by(birth: Birth<'_>) -> Availability {
    let (enforcement, failure) = doctor::try_sandbox(birth);
    let missing = enforcement.missing(&lower::needed_layers(Level::Full));
    let mut errors: Vec<String> = Vec::new();
    if let Some(LaunchError::Launcher(error)) = &failure {
        errors.push(format!("no sandbox can be made: {error}"));
    } else {
        for layer in missing {
            let (reason, fix) = doctor::why_not(layer, failure.as_ref());
            let error = format!("{reason}. To mend it: {fix}");
            // One cause stands in the way of several layers.
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        if let (Some(failure), true) = (&failure, errors.is_empty()) {
            errors.push(format!("the sandbox could not be built: {failure}"));
        }
    }
    let supported = errors.is_empty();
    let mut warnings = Vec::new();
    if supported && Cgroup::make(&doctor::some_limits()).is_err() {
        let (reason, fix) = doctor::why_not(Layer::Cgroup, None);
        warnings.push(format!("{reason}, so that {}. To mend it: {fix}", Layer::Cgroup.weaker_without()));
    }
    Availability { supported, errors, warnings }
}
