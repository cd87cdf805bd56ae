//! `lazaret mcp`.

mod containing;
mod import;
