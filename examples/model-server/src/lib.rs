//! A deterministic model server. It stands in for Anthropic, OpenAI and Google, so that real coding agents can be run
//! and tested without a model, a key or a network.
//!
//! It listens on loopback, speaks four APIs (Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Gemini),
//! and gives the answers of a [`Script`]: text, tool calls that are filled in from the schemas in the request, errors
//! of each kind, streams that break off, slowness. An answer depends on the request and on the number of times that a
//! fault was served, never on time or chance, so several agents can use one server, and one's turn can wait for what another
//! was told.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use watchfire_model_server::{ModelServer, Script};
//!
//! let script: Script = serde_json::from_str(
//!     r#"[{"turns": [{"text": "On it.", "run": "echo hello > hello.txt"}, {"text": "Done."}]}]"#,
//! )?;
//! let server = ModelServer::start(script, 0).await?;
//! // ANTHROPIC_BASE_URL={url}, an OpenAI base URL of {url}/v1, GOOGLE_GEMINI_BASE_URL={url}
//! println!("{}", server.url());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod api;
mod ask;
mod fault;
mod login;
#[cfg(feature = "tls")]
mod proxy;
mod script;
mod server;
mod tool;

pub use ask::Ask;
pub use fault::{Fault, RESETS_AT};
pub use login::Login;
#[cfg(feature = "tls")]
pub use proxy::VendorProxy;
pub use script::{Rule, Script, Turn};
pub use server::{ModelServer, Said};
