//! The workspace on real repositories, judged by the real git.

mod agent;
mod backup;
mod concurrency;
mod conformance;
mod diff;
mod formats;
mod guards;
mod guest_histories;
mod guests;
mod half_way;
mod histories;
mod hostile_files;
mod init;
mod isolated;
mod lfs;
mod merging;
mod odd_repositories;
mod queue;
mod races;
mod ready;
mod recovery;
mod references;
mod support;
mod undo;
mod user;
