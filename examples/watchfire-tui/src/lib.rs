//! The terminal interface: tasks on the left, an agent's terminal on the right.
//!
//! [`update`](update::update) turns messages into changes of a [`Model`](model::Model) and commands, and [`view`](view::view) draws the
//! model. Both are pure. [`run()`] has the rest: keys, time, the person's terminal, and the daemon, through `watchfire-client` alone.

#![forbid(unsafe_code)]

pub mod agents;
mod alerts;
mod api;
pub mod ascii;
pub mod diff;
pub mod encode;
mod find;
pub mod forms;
pub mod keymap;
pub mod layout;
pub mod lists;
pub mod message;
pub mod model;
pub mod picture;
mod run;
pub mod selection;
pub mod syntax;
mod tasks;
mod terminal;
pub mod theme;
pub mod update;
pub mod view;

pub use api::Connect;
pub use run::{Ended, Options, run};
