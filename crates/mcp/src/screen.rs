//! Where texts of servers can be looked at before the client sees them: descriptions of tools, and results. The
//! proxy asks; who decides is given to it.

/// What becomes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Screened {
    Pass,
    /// The client gets the reason instead.
    Withhold(String),
}

/// Looks at what a server says.
pub trait Screen: Send + Sync + std::fmt::Debug {
    fn description(&self, server: &str, tool: &str, text: &str) -> Screened;
    fn result(&self, server: &str, tool: &str, raw: &str) -> Screened;
}

/// Lets everything pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unscreened;

impl Screen for Unscreened {
    fn description(&self, _: &str, _: &str, _: &str) -> Screened {
        Screened::Pass
    }

    fn result(&self, _: &str, _: &str, _: &str) -> Screened {
        Screened::Pass
    }
}
