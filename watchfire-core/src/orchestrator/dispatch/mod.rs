//! The dispatcher: takes all facts in one order, steps the schedule, has its changes recorded, and hands its commands
//! to effects. Nothing else emits.

mod dispatcher;
mod project;
mod recorder;
mod slots;

pub(crate) use dispatcher::run;
