//! Settings of `srt` (@anthropic-ai/sandbox-runtime): read strictly ([`settings`]) and put into a policy of our
//! own ([`translate`]). Pure but for reading one file and looking whether paths exist; whoever runs the
//! command is somebody else.
#![forbid(unsafe_code)]

pub mod paths;
pub mod settings;
pub mod translate;

pub use settings::{Settings, SettingsError};
pub use translate::{Surroundings, TranslateError, Translated, translate};
