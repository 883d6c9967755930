//! Coding agent CLIs as Watchfire backends, one file per agent.
//!
//! Each backend registers itself, so a program that links this crate (`use watchfire_backends as _;`) has them all.
//! The parts that they share are in `common` and `agent`.

#![forbid(unsafe_code)]
// On docs.rs each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "acp")]
pub mod acp;
pub mod aider;
pub mod claude_code;
pub mod cline;
pub mod codex;
pub mod command;
pub mod continue_cli;
pub mod copilot;
pub mod cursor_agent;
pub mod gemini;
pub mod opencode;
pub mod prices;
pub mod scripted;

mod agent;
mod common;

pub use aider::Aider;
pub use claude_code::ClaudeCode;
pub use cline::Cline;
pub use codex::Codex;
pub use command::Command;
pub use continue_cli::Continue;
pub use copilot::Copilot;
pub use cursor_agent::CursorAgent;
pub use gemini::Gemini;
pub use opencode::OpenCode;
pub use scripted::Scripted;
