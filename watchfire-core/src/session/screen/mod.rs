//! What an agent prints: read once, shown on its terminal, logged, and watched for signs of its state.

mod log_file;
pub(in crate::session) mod pump;

pub(crate) use log_file::LogFile;
pub(crate) use pump::Sinks;
