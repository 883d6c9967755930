//! Times two programs that do the same work, one after the other.

use std::time::Instant;

use watchfire_benches::{Report, millis};

use crate::repository::Done;

/// Times of our implementation and of git.
#[derive(Default)]
pub(crate) struct Pair {
    ours: Vec<Time>,
    theirs: Vec<Time>,
}

/// Wall time and CPU time of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    /// In milliseconds.
    pub(crate) wall: f64,
    /// CPU of this process, and of its children that have ended, in milliseconds. The kernel counts the children's in
    /// steps of ten.
    cpu: (f64, f64),
}

impl Pair {
    /// Times both. They take turns at going first, so that the order favours neither.
    pub(crate) async fn time(
        &mut self,
        ours: impl AsyncFnOnce() -> Done,
        theirs: impl FnOnce() -> Done,
    ) -> Done {
        let theirs = async || theirs();
        let (a, b) = if self.ours.len().is_multiple_of(2) {
            let a = time(ours).await?;
            (a, time(theirs).await?)
        } else {
            let b = time(theirs).await?;
            (time(ours).await?, b)
        };
        self.ours.push(a);
        self.theirs.push(b);
        Ok(())
    }

    /// Adds both to the report: wall times, then CPU.
    pub(crate) fn tell(&self, report: &mut Report, section: &str, ours: &str, theirs: &'static str) {
        let cpu = |times: &[Time], of: fn(&Time) -> f64| vec![times.iter().map(of).sum::<f64>()];
        let their_cpu = cpu(&self.theirs, |time| time.cpu.1);
        report.add(section, theirs, "ms", self.walls());
        self.compare(report, section, ours, self.ours.iter().map(|time| time.wall).collect(), theirs);
        let ours = cpu(&self.ours, |time| time.cpu.0);
        report.compare(section, "  CPU", "ms", ours, "its CPU", &their_cpu);
    }

    /// Adds the times of another way of doing it, measured in the same rounds, compared with git's.
    pub(crate) fn compare(
        &self,
        report: &mut Report,
        section: &str,
        name: &str,
        times: Vec<f64>,
        theirs: &'static str,
    ) {
        report.compare(section, name, "ms", times, theirs, &self.walls());
    }

    fn walls(&self) -> Vec<f64> {
        self.theirs.iter().map(|time| time.wall).collect()
    }
}

/// Runs `what` and returns the time that it took.
pub(crate) async fn time(what: impl AsyncFnOnce() -> Done) -> Done<Time> {
    let (start, before) = (Instant::now(), cpu());
    what().await?;
    let (wall, after) = (millis(start), cpu());
    Ok(Time { wall, cpu: (after.0 - before.0, after.1 - before.1) })
}

/// Returns the CPU used so far by this process, and by its children that have ended.
fn cpu() -> (f64, f64) {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().skip(13).take(2));
    let ticks: f64 = fields.into_iter().flatten().filter_map(|field| field.parse::<f64>().ok()).sum();
    let own = own.tv_sec as f64 * 1e3 + own.tv_nsec as f64 / 1e6;
    (own, ticks * 1e3 / rustix::param::clock_ticks_per_second() as f64)
}

/// Reports the peak memory of this process so far.
pub(crate) fn memory(section: &str, report: &mut Report) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    let Some(ours) = peak.and_then(|peak| peak.parse::<f64>().ok()) else {
        report.skip("memory", "the kernel does not tell");
        return;
    };
    report.add(section, "our memory at its peak, with that of smaller sizes", "KB", vec![ours]);
}
