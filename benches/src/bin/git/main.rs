//! What work on a repository costs, beside the `git` program doing the same, pair by pair in one run.
//!
//! `cargo run --release -p watchfire-benches --bin git [-- --json] [--in=folder] [--large] [100 10000 100000]`
//!
//! Per number of files:
//!
//! - opening a folder for an agent, with private copies: cold, and from a folder that was kept ready and is ten changed
//!   files behind; beside `git worktree add`. Floor: the same files made empty by one thread, which is what no copying
//!   of contents (reflinks) can save.
//! - capturing ten changed files and a new one, beside `git add` and `git commit`;
//! - importing a commit of ten files from private copies, which a capture does first; floor: `git fetch` of the same
//!   commit from a repository beside it, with the objects checked;
//! - merging and publishing, beside a bare `git merge-tree` and `git update-ref`; and where the target is checked out,
//!   beside `git merge` there;
//! - removing folder and branch, beside `git worktree remove` and `git branch -D`;
//! - listing 500 branches, beside one `git for-each-ref` with ahead and behind and one `git diff-tree` of all;
//! - the most memory that any of it took.
//!
//! With `--features gix`, also our readers of index and ignore files beside gix-index, gix-ignore and libgit2.
//!
//! `--large`: a merge of 15,000 new files where the target is checked out, beside `git merge`, in a repository without and with
//! a `.gitattributes`, and a capture of 50,000 new files, beside `git add` alone.
//!
//! Rows called CPU are the time of all cores in all rounds together, of which a busy machine changes little. Who goes
//! first changes from pair to pair: files that one has made are written to the disk while the other works. Folders are
//! removed last: ext4 without a journal is slow to create files where others were deleted in the last minutes. On such
//! a file system, wait a while between runs.

mod branches;
#[cfg(feature = "gix")]
mod buffers;
mod large;
mod merge;
mod pairs;
mod repository;
mod task;

use repository::{Done, Repository};
use watchfire_benches::Report;

fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut sizes: Vec<usize> = args.iter().filter_map(|size| size.parse().ok()).collect();
    let large = args.iter().any(|arg| arg == "--large");
    if sizes.is_empty() && !large {
        sizes = vec![100, 10_000, 100_000];
    }
    // Else on the disk that holds the builds: `/tmp` may be memory.
    let builds = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
    let place = args.iter().find_map(|arg| arg.strip_prefix("--in=")).unwrap_or(builds);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = Report::default();
    // All of them go at the end.
    let mut repositories = Vec::new();
    for size in sizes {
        let section = format!("{size} files");
        let repository = Repository::new(place.as_ref(), size)?;
        runtime.block_on(task::measure(&repository, &section, &mut report))?;
        runtime.block_on(merge::measure(&repository, &section, &mut report))?;
        runtime.block_on(branches::measure(&repository, &section, &mut report))?;
        #[cfg(feature = "gix")]
        buffers::measure(&repository, &section, &mut report)?;
        pairs::memory(&section, &mut report);
        repositories.push(repository);
    }
    #[cfg(feature = "gix")]
    buffers::measure_rules(&mut report);
    if large {
        let repository = Repository::new(place.as_ref(), 1_000)?;
        runtime.block_on(large::measure(&repository, &mut report))?;
        pairs::memory("very many new files", &mut report);
        repositories.push(repository);
    }
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(())
}
