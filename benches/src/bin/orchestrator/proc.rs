//! What the kernel says about processes.

use std::path::Path;

/// The proportional set size of a process in KiB; none where the kernel does not say.
pub(crate) fn pss(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// CPU seconds that a process has used so far.
pub(crate) fn cpu(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// The children of this process with that name.
pub(crate) fn children(name: &str) -> Vec<u32> {
    let me = std::process::id().to_string();
    let is_ours = |pid: &u32| {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let Some((head, tail)) = text.rsplit_once(')') else { return false };
        head.ends_with(&format!("({name}")) && tail.split_whitespace().nth(1) == Some(&me)
    };
    let entries = std::fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}
